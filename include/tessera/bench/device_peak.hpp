#pragma once
// The FLOP/s that a rank's device can reach: what MFU is a share of.

#include <limits>
#include <string>

#include "tessera/training/session.hpp"

namespace tessera {

struct DevicePeak {
  double flops = std::numeric_limits<double>::quiet_NaN();  ///< of a rank, in the run's compute type; NaN: not known
  std::string source = "unknown";
};

/// Collective. Matrix products for some 20 ms on all ranks at once, before they take memory, by the time that cores
/// spent on them: the best of all ranks, which have the same kind of processor; shared where there are more threads
/// than cores. It is what the run's own products can reach, not what the processor's maker says of it.
DevicePeak measure_core_peak(RankContext& context, const Options& options, const MachineShape& machine);

/// The datasheet's, where the GPU is known.
DevicePeak datasheet_peak(const Device& device, DType compute);

}  // namespace tessera
