#include "tessera/text/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "tessera/base/format.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kInspectedBlock = 1 << 16;
constexpr std::int64_t kSampleTokens = 160;
constexpr std::int64_t kMarkedTokens = 1024;
constexpr std::size_t kSampleBytes = 160;
constexpr std::array<std::int64_t, 8> kUsualLengths{128, 256, 512, 1024, 2048, 4096, 8192, 16384};  // train.seq_len

/// The ids that occur.
struct Used {
  std::vector<bool> ids;
  std::int64_t distinct = 0;
  void add(std::int32_t id) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= ids.size()) ids.resize(at + 1);
    if (!ids[at]) ids[at] = true, ++distinct;
  }
};

Used used_by(const TokenSource& source) {
  Used used;
  std::vector<std::int32_t> block(static_cast<std::size_t>(kInspectedBlock));
  for (std::int64_t first = 0; first < source.size(); first += kInspectedBlock) {
    const std::int64_t count = std::min(kInspectedBlock, source.size() - first);
    source.copy(first, count, block.data());
    for (std::int64_t i = 0; i < count; ++i) used.add(block[static_cast<std::size_t>(i)]);
  }
  return used;
}

/// Says how long documents are, also against usual values of train.seq_len.
std::string documents_line(const DocumentIndex& index) {
  if (index.size() == 0) return "documents  0";
  std::int64_t longest = 0, most = 0;
  std::array<std::int64_t, kUsualLengths.size()> longer{};
  for (std::int64_t i = 0; i < index.size(); ++i) {
    const std::int64_t length = index.end(i) - index.begin(i);
    if (length > most) longest = i, most = length;
    for (std::size_t at = 0; at < longer.size(); ++at) longer[at] += length > kUsualLengths[at] ? 1 : 0;
  }
  std::string out = fmt::format("documents  {}; the longest is number {} with {}; {:.0f} tokens on average",
                                index.size(), longest + 1, counted(most, "token"),
                                static_cast<double>(index.end(index.size() - 1)) / static_cast<double>(index.size()));
  for (std::size_t at = 0; at < longer.size() && longer[at] > 0; ++at)
    out += fmt::format("{}{}: {}", at == 0 ? "\n           of more tokens than " : ", ", kUsualLengths[at], longer[at]);
  return out;
}

std::string sample_text(const TokenSource& source, const Tokenizer& tokenizer, std::int64_t first, std::int64_t end) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(kSampleTokens, end - first)));
  source.copy(first, std::ssize(ids), ids.data());
  std::string text;
  for (const char c : tokenizer.decode(ids)) text += c == '\n' ? "\\n" : std::string(1, c);
  return shown(text, kSampleBytes);
}

/// The first, the middle and the last document; without an index the beginning and the middle.
std::string samples(const TokenSource& source, const DocumentIndex* index, const Tokenizer& tokenizer) {
  std::string out;
  if (index == nullptr || index->size() == 0) {
    for (const std::int64_t first : std::set<std::int64_t>{0, source.size() / 2})
      out += fmt::format("\nsample     from token {}: {}", first, sample_text(source, tokenizer, first, source.size()));
    return out;
  }
  for (const std::int64_t i : std::set<std::int64_t>{0, index->size() / 2, index->size() - 1}) {
    out += fmt::format("\nsample     document {}: {}", i + 1,
                       sample_text(source, tokenizer, index->begin(i), index->end(i)));
  }
  return out;
}

/// Shows the first document of which something counts, with brackets around what does.
std::string marked_document(const TokenSource& source, const DocumentIndex& index, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids, targets;
  for (std::int64_t i = 0; i < index.size(); ++i) {
    const std::int64_t begin = index.begin(i), count = std::min(kMarkedTokens, index.end(i) - begin);
    ids.assign(static_cast<std::size_t>(count), 0);
    source.copy(begin, count, ids.data());
    targets = ids;
    source.mask_targets(begin, count, targets.data());
    if (std::ranges::count(targets, kUncountedToken) == count) continue;
    std::string text;
    bool counts = false;
    for (std::size_t at = 0; at < ids.size(); ++at) {
      const bool is_counted = targets[at] != kUncountedToken;
      if (is_counted != counts) text += is_counted ? "[[" : "]]";
      counts = is_counted;
      for (const char c : tokenizer.bytes_of(ids[at])) text += c == '\n' ? "\\n" : std::string(1, c);
    }
    return fmt::format("\nmarked     document {}, the loss counts what stands in [[ ]]: {}{}", i + 1,
                       shown(text, text.size()), counts ? "]]" : "");
  }
  return {};
}

}  // namespace

std::string inspect_tokens(const TokenSource& source, const DocumentIndex* index, const Tokenizer* tokenizer) {
  const Used used = used_by(source);
  std::string out = fmt::format("tokens     {} of {} bytes", source.size(), source.id_bound() <= 65536 ? 2 : 4);
  if (index != nullptr) out += "\n" + documents_line(*index);
  const std::int64_t vocab = tokenizer != nullptr ? tokenizer->vocab() : std::ssize(used.ids);
  out += fmt::format("\nvocabulary {} ids used of {} ({}){}; the largest is {}", used.distinct, vocab,
                     format_percent(static_cast<double>(used.distinct) / static_cast<double>(vocab)),
                     tokenizer != nullptr ? " of " + tokenizer->describe() : "", std::ssize(used.ids) - 1);
  if (tokenizer != nullptr) out += samples(source, index, *tokenizer);
  const CountedShare share = source.counted_share();
  if (source.masks_loss() || share.conversations > 0) out += "\ncounted    " + describe(share);
  if (!source.masks_loss()) return out;
  if (tokenizer != nullptr && index != nullptr) out += marked_document(source, *index, *tokenizer);
  return out;
}

std::string describe_bad_places(std::int64_t count, const std::vector<std::string>& first) {
  std::string text = fmt::format("bad        {}, left out, read otherwise or not counted:", counted(count, "place"));
  for (const std::string& place : first) text += "\n           " + place;
  return text;
}

}  // namespace tessera
