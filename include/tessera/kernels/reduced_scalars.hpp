#pragma once
// The one scalar reduction of a step: loss, squared norm and flags, all as integers, so that the sum over ranks has no
// order and one all-reduce of 64-bit integers carries everything.

#include <cstdint>

#include "tessera/base/exact_sum.hpp"

namespace tessera {

struct ReducedScalars {
  ExactSum loss;         ///< sum of token losses, a term per micro-batch
  ExactSum square_norm;  ///< of the summed gradient (times the loss scale, squared), every element counted once
  std::int64_t stop_requested = 0;  ///< the ranks' requests, which come last: see training/stop.hpp

  TESSERA_HOST_DEVICE void clear() { loss.clear(), square_norm.clear(), stop_requested = 0; }
};

/// A rank's wish to stop, which is summed over the ranks before every micro-step of several.
struct StepWish {
  std::int64_t requests = 0;   ///< see training/stop.hpp
  std::int64_t long_rest = 0;  ///< 1: by this rank's estimate the rest of the step takes too long to be waited for
};
inline constexpr std::int64_t kWishIntegers = sizeof(StepWish) / sizeof(std::int64_t);

inline constexpr std::int64_t kReducedIntegers = sizeof(ReducedScalars) / sizeof(std::int64_t);
static_assert(sizeof(ReducedScalars) % sizeof(std::int64_t) == 0);

}  // namespace tessera
