#include "tessera/data/reader.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

namespace {

/// Marks those among a sample's targets [length] that the loss leaves out: also the first token of each further range,
/// and what follows the last range.
void mask_targets(const TokenSource& source, const TokenRanges& ranges, std::int32_t* targets, std::int64_t length) {
  std::int64_t begin = 0;  // of a range in the sample: its first token is the target before that
  for (const TokenRange& range : ranges) {
    if (begin > 0) targets[begin - 1] = kUncountedToken;
    source.mask_targets(range.first + 1, range.count - 1, targets + begin);
    begin += range.count;
  }
  if (begin <= length) std::fill(targets + begin - 1, targets + length, kUncountedToken);
}

}  // namespace

void fill_sample(const TokenSource& source, const TokenRanges& ranges, std::int64_t vocab, std::span<std::int32_t> row,
                 std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions) {
  const std::int64_t length = std::ssize(row) - 1;
  std::int64_t begin = 0;
  for (const TokenRange& range : ranges) {
    TESSERA_ASSERT(begin + range.count <= length + 1, "a sample of more than {} tokens", length + 1);
    copy_checked(source, range.first, range.count, vocab, &row[static_cast<std::size_t>(begin)]);
    if (positions != nullptr)
      fill_positions(source, range.first, std::min(range.count, length - begin), positions + begin);
    begin += range.count;
  }
  // Padding forms a document of its own, so no other token attends to it.
  std::fill(row.begin() + begin, row.end(), 0);
  if (positions != nullptr) std::iota(positions + std::min(begin, length), positions + length, 0);
  std::copy_n(row.begin(), length, tokens);
  std::copy_n(row.begin() + 1, length, targets);
  mask_targets(source, ranges, targets, length);
}

std::string place_of(const TokenSource& source, const TokenRanges& ranges) {
  return joined(
      ranges, [&](const TokenRange& range) { return source.place(range.first, range.count); }, "; ");
}

void fill_batch(const TokenSource& source, const Sampler& sampler, std::int64_t vocab, std::int64_t first_sample,
                std::int64_t batch, std::span<std::int32_t> row, std::int32_t* tokens, std::int32_t* targets,
                std::int32_t* positions) {
  const std::int64_t length = sampler.seq_len();
  for (std::int64_t i = 0; i < batch; ++i) {
    fill_sample(source, sampler.ranges(first_sample + i), vocab, row, tokens + i * length, targets + i * length,
                positions != nullptr ? positions + i * length : nullptr);
  }
}

std::int64_t counted_targets(const TokenSource& source, const Sampler& sampler, std::int64_t first_sample,
                             std::int64_t samples, std::span<std::int32_t> row) {
  const std::int64_t length = sampler.seq_len();
  if (!source.masks_loss() && sampler.packing() == nullptr) return checked_multiply(samples, length);
  const auto targets = row.first(static_cast<std::size_t>(length));
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    std::ranges::fill(targets, 0);
    mask_targets(source, sampler.ranges(first_sample + i), targets.data(), length);
    counted += length - std::ranges::count(targets, kUncountedToken);
  }
  return counted;
}

BatchReader::BatchReader(const TokenSource& source, const Sampler& sampler, std::int64_t vocab, std::int64_t batch,
                         Requests requests, std::int64_t depth)
    : source_(source),
      sampler_(sampler),
      vocab_(vocab),
      batch_(batch),
      requests_(std::move(requests)),
      row_(static_cast<std::size_t>(sampler.seq_len() + 1)) {
  TESSERA_ASSERT(batch >= 1 && depth >= 1, "batches of {}, {} ahead", batch, depth);
  const auto elements = static_cast<std::size_t>(checked_multiply(batch, sampler.seq_len()));
  slots_.resize(static_cast<std::size_t>(depth + 1));
  for (auto& slot : slots_) {
    slot.tokens.resize(elements), slot.targets.resize(elements);
    if (source.has_documents()) slot.positions.resize(elements);
  }
  thread_ = start_thread("batch reader", [this] { read_ahead(); });
}

BatchReader::~BatchReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchReader::read(std::int64_t request, Slot& slot) {
  slot.first_sample = requests_(request);
  fill_batch(source_, sampler_, vocab_, slot.first_sample, batch_, row_, slot.tokens.data(), slot.targets.data(),
             slot.positions.empty() ? nullptr : slot.positions.data());
}

void BatchReader::read_ahead() {
  for (std::int64_t request = 0;; ++request) {
    {
      // The slot of request - slots is free once the batch after it has been taken.
      std::unique_lock lock(mutex_);
      const auto slots = static_cast<std::int64_t>(slots_.size());
      changed_.wait(lock, [&] { return stop_ || request <= slots - 1 || request - slots + 1 < taken_; });
      if (stop_) return;
    }
    std::exception_ptr failure;
    try {
      read(request, slot_of(request));
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      if (failure)
        failure_ = failure;
      else
        ready_ = request + 1;
    }
    changed_.notify_all();
    if (failure) return;
  }
}

Batch BatchReader::take() {
  std::unique_lock lock(mutex_);
  ++taken_;  // releases the batch in use
  changed_.notify_all();
  changed_.wait(lock, [&] { return ready_ >= taken_ || failure_; });
  if (ready_ < taken_) {
    --taken_;
    std::rethrow_exception(failure_);
  }
  const Slot& slot = slot_of(taken_ - 1);
  return {slot.tokens, slot.targets, slot.positions, slot.first_sample};
}

}  // namespace tessera
