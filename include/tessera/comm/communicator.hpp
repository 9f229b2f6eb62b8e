#pragma once
// The collectives that a schedule needs, over one group of ranks. Implementations: a node's shared memory (processes,
// or ranks as threads of one process), MPI between nodes, NCCL, and staged through the host.
//
// Calls are collective over the group and in the same order on all its ranks. On the CPU they block the calling queue;
// on a GPU they are enqueued on `stream`. None returns (or completes on its stream) while a peer can still read or
// write the caller's buffers.
//
// Buffers named `whole`, `contribution` and `sent` must lie in the caller's shared region (SharedRegion), at the same
// offset on all ranks: the memory plan guarantees it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/backend/stream.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/comm/exchange_run.hpp"

namespace tessera {

/// A communicator's traffic since construction, as seen by this rank.
struct CommunicationCount {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< sent, as formulas count: (n-1)/n of the collective's size; exchange: the busiest rank's
  double seconds = 0;      ///< spent inside, waiting for peers included

  CommunicationCount& operator+=(const CommunicationCount& other) {
    calls += other.calls, bytes += other.bytes, seconds += other.seconds;
    return *this;
  }
  CommunicationCount& operator-=(const CommunicationCount& other) {
    calls -= other.calls, bytes -= other.bytes, seconds -= other.seconds;
    return *this;
  }
};

enum class Collective : std::uint8_t { all_gather, reduce_scatter, all_reduce, broadcast, exchange, barrier };
/// Of those that are counted, all but the barrier, in the order of the enumeration; also the groups in /comm of
/// metrics.h5.
inline constexpr std::array<const char*, 5> kCollectiveNames = {"all_gather", "reduce_scatter", "all_reduce",
                                                                "broadcast", "exchange"};
inline std::string_view name_of(Collective collective) {
  return kCollectiveNames.at(static_cast<std::size_t>(collective));
}
/// By kind of collective, in the order of the enumeration.
using CommunicationCounts = std::array<CommunicationCount, kCollectiveNames.size()>;
/// Returns what came between two counts.
inline CommunicationCounts difference(CommunicationCounts after, const CommunicationCounts& before) {
  for (std::size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return after;
}

/// How an all_reduce combines its values: it adds them up, perhaps wrapping around on the way to a sum that fits, or
/// takes the largest.
enum class Reduction : std::uint8_t { sum, max };

struct CollectiveCall;  // comm/collective_call.hpp

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Gathers in place: slice whole[r*elements .. (r+1)*elements) is present on rank r before and on all ranks
  /// afterwards.
  void all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype);

  /// Sums contribution[r*elements ..] over the ranks into `shard` on rank r. Terms are widened to fp32, added in the
  /// fixed binary tree over the group's ranks, then stored in shard_dtype. A node of the tree splits at the largest
  /// power of two below its size. `contribution` is [size * elements] in wire_dtype; `shard` may not overlap it.
  void reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard, DType shard_dtype,
                      std::int64_t elements_per_rank);

  /// Reduces 64-bit integers over the group element by element, in place; order-free, hence the same bits everywhere.
  void all_reduce(Stream& stream, std::int64_t* values, std::int64_t count, Reduction reduction);

  /// Copies `bytes` from `root`'s buffer to all ranks'. Any host memory.
  void broadcast(Stream& stream, void* data, std::int64_t bytes, int root);

  /// Moves all of `runs`, the same list on all ranks, which must stay valid until the call is done. Elements of
  /// `received` that no run names stay as they are. `received` may not overlap `sent`.
  void exchange(Stream& stream, const void* sent, void* received, std::span<const ExchangeRun> runs, DType dtype);

  void barrier(Stream& stream);

  /// Makes any of the calls above.
  virtual void run(Stream& stream, const CollectiveCall& call) = 0;

  /// Sets an external workspace for the sums of the calls that follow (comm/scratch.hpp gives its size), in the memory
  /// space of the buffers. It must not be touched until they are done. Only communicators that were opened without
  /// their own workspace use it; the others ignore it.
  virtual void set_workspace(std::span<std::byte> /*scratch*/) {}

  virtual CommunicationCount count(Collective collective) const = 0;
};

}  // namespace tessera
