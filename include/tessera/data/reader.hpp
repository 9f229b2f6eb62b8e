#pragma once
// Batches of tokens, read ahead of the step on a separate thread.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "tessera/data/sampler.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera {

/// One micro-batch, each [batch, seq_len] int32, row by row.
struct Batch {
  std::span<const std::int32_t> tokens;
  std::span<const std::int32_t> targets;    ///< tokens shifted by one; kUncountedToken where the loss leaves one out
  std::span<const std::int32_t> positions;  ///< of tokens in their documents; empty without TokenSource::has_documents
  std::int64_t first_sample = 0;
};

/// Fills tokens and targets [length] with a sample, and `positions` unless it is null. `row` is scratch of length + 1;
/// the ranges have at most as many tokens, and what they leave is padding: tokens 0 in a document of their own, whose
/// loss does not count. UsageError when a token is not below `vocab`.
void fill_sample(const TokenSource& source, const TokenRanges& ranges, std::int64_t vocab, std::span<std::int32_t> row,
                 std::int32_t* tokens, std::int32_t* targets, std::int32_t* positions = nullptr);

/// Says where a sample comes from, as TokenSource::place.
std::string place_of(const TokenSource& source, const TokenRanges& ranges);

/// Fills tokens and targets [batch, seq_len] with samples first_sample .. first_sample + batch - 1, and `positions`
/// unless it is null, each by fill_sample.
void fill_batch(const TokenSource& source, const Sampler& sampler, std::int64_t vocab, std::int64_t first_sample,
                std::int64_t batch, std::span<std::int32_t> row, std::int32_t* tokens, std::int32_t* targets,
                std::int32_t* positions = nullptr);

/// Returns how many targets of these samples the loss counts. `row` is scratch of at least seq_len.
std::int64_t counted_targets(const TokenSource& source, const Sampler& sampler, std::int64_t first_sample,
                             std::int64_t samples, std::span<std::int32_t> row);

class BatchReader {
 public:
  /// Maps request q (0, 1, 2, ...) to its samples: the first of `batch` consecutive ones. Called on the reader's thread
  /// only.
  using Requests = std::function<std::int64_t(std::int64_t request)>;

  /// Starts reading at once, at most `depth` (>= 1) batches ahead of the one in use. Source and sampler must outlive
  /// the reader. All memory is allocated here: (depth + 1) * 2 * batch * seq_len * 4 bytes.
  /// With documents it is half as much again.
  BatchReader(const TokenSource& source, const Sampler& sampler, std::int64_t vocab, std::int64_t batch,
              Requests requests, std::int64_t depth = 2);
  /// Stops after the batch that is being read.
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// Returns the next batch, in the order of requests; valid until the next take. Rethrows an error in reading it, and
  /// again on every later call.
  Batch take();

 private:
  struct Slot {
    std::vector<std::int32_t> tokens, targets, positions;
    std::int64_t first_sample = 0;
  };
  void read_ahead();
  void read(std::int64_t request, Slot& slot);
  Slot& slot_of(std::int64_t request) { return slots_[static_cast<std::size_t>(request) % slots_.size()]; }

  const TokenSource& source_;
  const Sampler& sampler_;
  std::int64_t vocab_, batch_;
  Requests requests_;
  std::vector<Slot> slots_;  ///< a ring: one in use, the others ahead
  std::vector<std::int32_t> row_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t ready_ = 0;  ///< requests read
  std::int64_t taken_ = 0;  ///< requests handed out; the last one is still in use
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  ///< last, so that it starts when all else is there
};

}  // namespace tessera
