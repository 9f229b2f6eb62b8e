#pragma once
// The one scalar reduction of a step: loss, squared norm and flags, all as integers. So the sum over ranks has no
// order, and one all-reduce of 64-bit integers carries everything.

#include <cstdint>

#include "tessera/base/exact_sum.hpp"

namespace tessera {

struct ReducedScalars {
  ExactSum loss;         ///< sum of token losses, a term per micro-batch
  ExactSum square_norm;  ///< of the summed gradient (times the loss scale, squared), every element counted once
  std::int64_t stop_requested = 0;  ///< the ranks' requests: see training/stop.hpp

  TESSERA_HOST_DEVICE void clear() { loss.clear(), square_norm.clear(), stop_requested = 0; }
};

inline constexpr std::int64_t kReducedIntegers = sizeof(ReducedScalars) / sizeof(std::int64_t);
static_assert(sizeof(ReducedScalars) % sizeof(std::int64_t) == 0);

}  // namespace tessera
