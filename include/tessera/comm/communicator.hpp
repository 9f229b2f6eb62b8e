#pragma once
// The collectives that a schedule needs, over one group of ranks. Implementations: a node's shared memory (processes,
// or ranks as threads of one process), MPI between nodes, NCCL, and staged through the host.
//
// Calls are collective over the group and in the same order on all its ranks. On the CPU they block the calling lane;
// on a GPU they are enqueued on `stream`. None returns (or completes on its stream) while a peer can still read or
// write the caller's buffers.
//
// Buffers named `whole` and `contribution` must lie in the caller's shared region (SharedRegion), at the same offset on
// all ranks: the memory plan guarantees it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/backend/stream.hpp"
#include "tessera/base/dtype.hpp"

namespace tessera {

/// What a communicator has moved since construction, as seen by this rank.
struct CommunicationCount {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< sent by this rank as the strategies' formulas count: (n-1)/n of the collective's size
  std::int64_t nanoseconds = 0;  ///< spent inside, waiting for peers included
};

enum class Collective { all_gather, reduce_scatter, all_reduce, broadcast };
inline constexpr int kCollectives = 4;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// In place: rank r's slice whole[r*elements .. (r+1)*elements) is present on rank r and afterwards on all ranks.
  virtual void all_gather(Stream& stream, void* whole, std::int64_t elements_per_rank, DType dtype) = 0;

  /// Sums contribution[r*elements ..] over the ranks into `shard` on rank r. Terms are widened to fp32 and added in the
  /// fixed binary tree over the group's ranks (a node splits at the largest power of two below its size), then stored
  /// in shard_dtype. `contribution` is [size * elements] in wire_dtype; `shard` may not overlap it.
  virtual void reduce_scatter(Stream& stream, const void* contribution, DType wire_dtype, void* shard,
                              DType shard_dtype, std::int64_t elements_per_rank) = 0;

  /// Element-wise sum of 64-bit integers over the group, in place; order-free, hence the same bits everywhere.
  virtual void all_reduce_sum(Stream& stream, std::int64_t* values, std::int64_t count) = 0;

  /// Copies `bytes` from `root`'s buffer to everybody's. Any host memory.
  virtual void broadcast(Stream& stream, void* data, std::int64_t bytes, int root) = 0;

  virtual void barrier(Stream& stream) = 0;

  /// Memory for sums of the calls that follow (comm/scratch.hpp says how much each needs), in the memory that buffers
  /// are in; not to be touched until they are done. Only for communicators that were opened without memory of their
  /// own for that; others have no use for it.
  virtual void lend(std::span<std::byte> /*scratch*/) {}

  virtual CommunicationCount count(Collective collective) const = 0;
};

}  // namespace tessera
