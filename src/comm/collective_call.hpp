#pragma once
// One collective call: what it moves, its packed word, by which ranks notice that they are in different calls, and its
// counting.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "tessera/comm/communicator.hpp"

namespace tessera {

struct CollectiveCall {
  // Equal on all ranks of a correct program:
  Collective collective = Collective::barrier;
  DType wire = DType::byte;
  DType result = DType::byte;
  std::int64_t detail = 0;    ///< broadcast: the root; all-reduce: the Reduction
  std::int64_t elements = 0;  ///< all-gather and reduce-scatter: of one rank; exchange: of all runs

  const void* from = nullptr;
  void* to = nullptr;                      ///< the same as `from` for collectives in place
  std::span<const ExchangeRun> runs = {};  ///< exchange

  /// Returns the part that is equal on all ranks, in 64 bits.
  std::uint64_t packed() const;
  static CollectiveCall unpacked(std::uint64_t word);
  /// Returns "all_gather of 640 bf16 a rank".
  std::string text() const;

  int root() const { return static_cast<int>(detail); }
  Reduction reduction() const { return static_cast<Reduction>(detail); }

  /// Returns the bytes that one rank of `size` sends: (n-1)/n of the collective's size, twice for an all-reduce.
  /// For an exchange, those of the member that sends most.
  std::int64_t bytes_sent(std::int64_t size) const;
  /// Returns the bytes of `elements`, as sent.
  std::int64_t bytes() const { return elements * size_of(wire); }

  // For an exchange:
  /// Returns how many bytes of what `member` sends are read; of what it receives, how many are written, gaps included.
  std::int64_t sent_extent(std::int64_t member) const;
  std::int64_t received_extent(std::int64_t member) const;
  /// Returns the address of a run's ends in a member's buffers, by default in this call's.
  const std::byte* source_of(const ExchangeRun& run, const void* sent) const {
    return static_cast<const std::byte*>(sent) + run.source * size_of(wire);
  }
  const std::byte* source_of(const ExchangeRun& run) const { return source_of(run, from); }
  std::byte* target_of(const ExchangeRun& run) const {
    return static_cast<std::byte*>(to) + run.target * size_of(wire);
  }
};

/// A communicator with counters, which one thread writes and any thread may read.
class CountingCommunicator : public Communicator {
 public:
  CommunicationCount count(Collective collective) const final;

 protected:
  /// Counts a call that has ended, unless it was a barrier. Calls that throw are not counted.
  void add(const CollectiveCall& call, std::chrono::nanoseconds time);

 private:
  struct Counter {
    std::atomic<std::int64_t> calls{0}, bytes{0}, nanoseconds{0};
  };
  std::array<Counter, kCollectiveNames.size()> counters_;
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

}  // namespace tessera
