#include "tessera/comm/deal.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::int64_t micro_batch_index(const ProcessGrid& grid, ReduceWhen reduced, std::int64_t accumulation,
                               std::int64_t rank, std::int64_t micro_step) {
  TESSERA_ASSERT(micro_step >= 0 && micro_step < accumulation, "micro-step {} of {}", micro_step, accumulation);
  TESSERA_ASSERT(reduced != ReduceWhen::by_strategy, "shard.reduce is not resolved");
  const std::int64_t members = grid.shard_group_size(), member = grid.shard_index(rank);
  const std::int64_t first = grid.replica_index(rank) * accumulation * members;
  if (reduced == ReduceWhen::micro_step) return first + micro_step * members + member;
  return first + member * accumulation + micro_step;
}

}  // namespace tessera
