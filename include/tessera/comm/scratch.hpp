#pragma once
// Sizes of the workspaces that collectives need. The memory plan holds them before there are communicators, which get
// them as external workspaces (Communicator::set_workspace).

#include <algorithm>
#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

/// The collective algorithm of a group; determines its scratch memory.
enum class CollectiveAlgorithm : std::uint8_t {
  shared_memory,  ///< within a node
  messages,       ///< between nodes, over the host
  nccl_tree,      ///< NCCL, sums in the fixed tree
  nccl_sum,       ///< NCCL's own sums
  staged,         ///< through the host: its memory is pinned and in a separate region
};

/// Returns the bytes of each member's contribution that sums over messages take at a time: 16 MiB of all members
/// together, unless the blocks get too small.
constexpr std::int64_t message_block_bytes(std::int64_t ranks) {
  constexpr std::int64_t kAll = std::int64_t{16} << 20, kSmallest = 4096;
  return std::max(kSmallest, kAll / ranks / kSmallest * kSmallest);
}

/// Returns the workspace of a reduce_scatter of `elements_per_rank` over `ranks` ranks, in bytes: contributions are
/// received there before they can be added.
constexpr std::int64_t reduce_scratch_bytes(CollectiveAlgorithm algorithm, std::int64_t ranks,
                                            std::int64_t elements_per_rank, DType wire, DType shard) {
  const std::int64_t slice = elements_per_rank * size_of(wire);
  switch (algorithm) {
    case CollectiveAlgorithm::messages:  // in blocks, if a slice is longer
      return ranks * std::min(message_block_bytes(ranks), round_up(slice, std::int64_t{64}));
    case CollectiveAlgorithm::nccl_tree:
      return ranks * slice;
    case CollectiveAlgorithm::nccl_sum:  // the sum before it is converted
      return wire == shard ? 0 : slice;
    case CollectiveAlgorithm::shared_memory:
    case CollectiveAlgorithm::staged:
      return 0;
  }
  return 0;
}

/// Returns the same for an all_reduce of `count` integers.
constexpr std::int64_t all_reduce_scratch_bytes(CollectiveAlgorithm algorithm, std::int64_t ranks, std::int64_t count) {
  if (algorithm != CollectiveAlgorithm::messages) return 0;
  return std::min(ranks * message_block_bytes(ranks), count * size_of(DType::int64));
}

/// Returns the bytes of the buffer that staged collectives pass through one by one: full buffers up to `whole`, then
/// shards up to `result`.
constexpr std::int64_t staged_bytes(std::int64_t whole, std::int64_t result) {
  constexpr std::int64_t kAlignment = 256;
  return round_up(whole, kAlignment) + round_up(result, kAlignment);
}

}  // namespace tessera
