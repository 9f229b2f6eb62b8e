#include "tessera/data/packing.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// A window has the tokens of about so many samples, because its last one stays half empty.
constexpr std::int64_t kWindowSamples = 128, kLeastWindow = std::int64_t{1} << 18;
/// Windows that are kept packed have at most so many ranges in all.
constexpr std::int64_t kKept = std::int64_t{1} << 22;

/// A document, or a piece of one, and the sample that it is in.
struct Piece {
  std::int64_t first = 0, count = 0;
  std::size_t sample = 0;
};

/// Puts pieces into samples of at most `most` tokens: the longest first, each where least room is left. Returns the
/// number of samples.
std::size_t fit_best(std::vector<Piece>& pieces, std::int64_t most) {
  std::ranges::stable_sort(pieces, std::ranges::greater(), &Piece::count);
  std::size_t samples = 0;
  std::multimap<std::int64_t, std::size_t> by_room;
  for (Piece& piece : pieces) {
    const auto fitting = by_room.lower_bound(piece.count);
    const bool is_new = fitting == by_room.end();
    piece.sample = is_new ? samples++ : fitting->second;
    const std::int64_t room = (is_new ? most : fitting->first) - piece.count;
    if (!is_new) by_room.erase(fitting);
    if (room >= 2) by_room.emplace(room, piece.sample);
  }
  return samples;
}

std::int64_t targets_of(const TokenRanges& ranges) {
  std::int64_t targets = 0;
  for (const TokenRange& range : ranges) targets += range.count - 1;
  return targets;
}

}  // namespace

DocumentPacking::DocumentPacking(const TokenSource& source, TokenRange range, std::int64_t seq_len, TooLong too_long)
    : source_(source),
      range_(range),
      seq_len_(seq_len),
      window_tokens_(std::max(kWindowSamples * (seq_len + 1), kLeastWindow)),
      rule_(too_long) {
  const std::int64_t count = ceil_div(range.count, window_tokens_);
  windows_.reserve(static_cast<std::size_t>(count) + 1);
  Window next;
  for (std::int64_t window = 0; window < count; ++window) {
    windows_.push_back(next);
    const PackedWindow packed = pack(window);
    documents_ += packed.documents, too_long_ += packed.too_long;
    next.first_sample += std::ssize(packed.samples);
    for (const TokenRanges& sample : packed.samples) {
      next.targets_before += targets_of(sample);
      std::int64_t tokens = 0;
      for (const TokenRange& one : sample) tokens += one.count;
      most_documents_ = std::max(most_documents_, std::ssize(sample) + (tokens < seq_len ? 1 : 0));
      sample_tokens_.push_back(static_cast<std::int32_t>(tokens));
      tokens_ += tokens;
    }
  }
  windows_.push_back(next);
  if (samples() > 0) return;
  throw refuse("data.packing", "documents")
      .because("{} has no document of 2 to {} tokens here", source.describe(), seq_len + 1)
      .use("other text, a longer train.seq_len, or data.too_long = cut");
}

/// Packs the documents that begin in the window.
DocumentPacking::PackedWindow DocumentPacking::pack(std::int64_t window) const {
  const std::int64_t most = seq_len_ + 1, from = range_.first + window * window_tokens_;
  const std::int64_t end = range_.first + range_.count, to = std::min(from + window_tokens_, end);
  PackedWindow packed;
  std::vector<Piece> pieces;
  for (std::int64_t begin = window == 0 ? from : source_.document_end(from - 1), next = 0; begin < to; begin = next) {
    next = std::min(source_.document_end(begin), end);
    const bool is_too_long = next - begin > most;
    packed.too_long += is_too_long ? 1 : 0;
    if (next - begin < 2 || (is_too_long && rule_ == TooLong::skip)) continue;
    ++packed.documents;
    // The last token of a piece is the first of the next, so that it is predicted, and predicts.
    for (std::int64_t first = begin; next - first >= 2; first += seq_len_)
      pieces.push_back({first, std::min(next - first, most)});
  }
  packed.ranges = std::ssize(pieces);
  const std::size_t samples = fit_best(pieces, most);
  // Samples are numbered in the order in which the corpus has their first documents.
  std::ranges::sort(pieces, {}, &Piece::first);
  std::vector<std::size_t> number(samples, samples);
  for (const Piece& piece : pieces) {
    std::size_t& at = number[piece.sample];
    if (at == samples) at = packed.samples.size(), packed.samples.emplace_back();
    packed.samples[at].push_back({piece.first, piece.count});
  }
  return packed;
}

/// Returns the window of a sample: the last one that begins at or before it.
std::int64_t DocumentPacking::window_of(std::int64_t sample) const {
  TESSERA_ASSERT(sample >= 0 && sample < samples(), "sample {} of {} packed ones", sample, samples());
  return std::ranges::upper_bound(windows_, sample, {}, &Window::first_sample) - windows_.begin() - 1;
}

std::shared_ptr<const DocumentPacking::PackedWindow> DocumentPacking::packed(std::int64_t window) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(recent_, window, [](const auto& one) { return one.first; });
    if (found != recent_.end()) {
      recent_.splice(recent_.begin(), recent_, found);
      return found->second;
    }
  }
  auto packed = std::make_shared<const PackedWindow>(pack(window));
  const std::lock_guard lock(mutex_);
  recent_.emplace_front(window, packed);
  std::int64_t kept = 0;
  for (const auto& [number, one] : recent_) kept += one->ranges;
  for (; kept > kKept && recent_.size() > 1; recent_.pop_back()) kept -= recent_.back().second->ranges;
  return packed;
}

TokenRanges DocumentPacking::ranges(std::int64_t sample) const {
  const std::int64_t window = window_of(sample);
  const std::int64_t first = windows_[static_cast<std::size_t>(window)].first_sample;
  return packed(window)->samples[static_cast<std::size_t>(sample - first)];
}

std::int64_t DocumentPacking::targets_from(std::int64_t first) const {
  if (first >= samples()) return 0;
  const Window& window = windows_[static_cast<std::size_t>(window_of(first))];
  std::int64_t before = window.targets_before;
  for (std::int64_t sample = window.first_sample; sample < first; ++sample) before += targets_of(ranges(sample));
  return windows_.back().targets_before - before;
}

double DocumentPacking::padding() const {
  return 1 - static_cast<double>(tokens_) / static_cast<double>(samples() * (seq_len_ + 1));
}

}  // namespace tessera
