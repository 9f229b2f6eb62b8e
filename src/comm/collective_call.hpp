#pragma once
// One collective call: its packed word, by which ranks notice that they are in different calls, and its counting.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace tessera {

enum class CallKind : std::uint8_t { all_gather, reduce_scatter, all_reduce, broadcast, exchange, barrier };

/// A call's shape. Packed into 64 bits, equal on all ranks of a correct program.
struct CallShape {
  CallKind kind = CallKind::barrier;
  DType wire = DType::byte;
  DType result = DType::byte;
  std::int64_t detail = 0;  ///< broadcast: the root; all-reduce: the Reduction
  std::int64_t elements = 0;

  std::uint64_t packed() const;
  static CallShape unpacked(std::uint64_t word);
  /// Returns "all_gather of 640 bf16 a rank".
  std::string text() const;
};

/// Returns "ranks 3, 5".
std::string rank_list(std::span<const std::int64_t> ranks);

/// Reduces element by element.
inline void reduce_into(std::int64_t* values, const std::int64_t* terms, std::int64_t count, Reduction reduction) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<std::uint64_t>(values[i]) + static_cast<std::uint64_t>(terms[i]);
    values[i] = reduction == Reduction::max ? std::max(values[i], terms[i]) : static_cast<std::int64_t>(sum);
  }
}

/// Counters that one thread writes and any thread may read.
class CallCounters {
 public:
  CommunicationCount get(Collective collective) const;
  void add(Collective collective, std::int64_t bytes, std::int64_t nanoseconds);

 private:
  struct Counter {
    std::atomic<std::int64_t> calls{0}, bytes{0}, nanoseconds{0};
  };
  std::array<Counter, kCollectiveNames.size()> counters_;
};

/// Returns the bytes that one rank of `size` sends: (n-1)/n of the collective's size, twice for an all-reduce
/// (README.md). Not for an exchange.
std::int64_t bytes_sent(Collective collective, std::int64_t size, std::int64_t elements, DType dtype);

// For an exchange:
/// Returns the bytes sent by the member that sends most.
std::int64_t bytes_sent(std::span<const ExchangeRun> runs, DType dtype);
/// Returns its shape: the elements of all runs.
CallShape shape_of(std::span<const ExchangeRun> runs, DType dtype);
/// Returns how many elements of what `member` sends are read; of what it receives, how many are written, gaps included.
std::int64_t sent_extent(std::span<const ExchangeRun> runs, std::int64_t member);
std::int64_t received_extent(std::span<const ExchangeRun> runs, std::int64_t member);
/// Returns the addresses of a run's ends in a member's buffers.
inline const std::byte* source_of(const ExchangeRun& run, const void* sent, DType dtype) {
  return static_cast<const std::byte*>(sent) + run.source * size_of(dtype);
}
inline std::byte* target_of(const ExchangeRun& run, void* received, DType dtype) {
  return static_cast<std::byte*>(received) + run.target * size_of(dtype);
}

/// Counts a call when it ends; calls that throw are not counted.
class CountedCall {
 public:
  CountedCall(CallCounters& counters, Collective collective, std::int64_t bytes)
      : counters_(counters), collective_(collective), bytes_(bytes) {}
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;
  ~CountedCall() {
    if (std::uncaught_exceptions() > exceptions_) return;
    const auto time = std::chrono::steady_clock::now() - start_;
    counters_.add(collective_, bytes_, std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  }

 private:
  CallCounters& counters_;
  Collective collective_;
  std::int64_t bytes_;
  int exceptions_ = std::uncaught_exceptions();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tessera
