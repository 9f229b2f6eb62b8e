#pragma once
// Micro-batch assignment: which micro-batch of a step a rank sees at micro-step k (src/README.md). It follows the order
// of the schedule's sums. So a step's gradient is one tree over micro-batches 0..N-1 for every strategy.

#include <cstdint>

#include "tessera/comm/grid.hpp"
#include "tessera/config/enums.hpp"

namespace tessera {

/// Returns the micro-batch, in [0, world * accumulation), of `rank` at micro-step k in [0, accumulation = K). With
/// replica rho and member f of a shard group of F ranks:
///   reduced each micro-step: rho*K*F + k*F + f
///   reduced once:            rho*K*F + f*K + k
/// For strategies that are not hybrid, the grid's shard group is the world (F = W, rho = 0). `reduced` is resolved: not
/// by_strategy.
std::int64_t micro_batch_index(const ProcessGrid& grid, ReduceWhen reduced, std::int64_t accumulation,
                               std::int64_t rank, std::int64_t micro_step);

}  // namespace tessera
