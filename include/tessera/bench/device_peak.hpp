#pragma once
// The FLOP/s that a rank's device can reach: the reference for MFU.

#include <limits>
#include <string>

#include "tessera/backend/device.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

struct DevicePeak {
  double flops = std::numeric_limits<double>::quiet_NaN();  ///< per rank, in the run's compute type; NaN: not known
  std::string source = "unknown";
};

/// Measures matmuls for some 20 ms on all ranks at once, before they take memory, by the time that cores spent on them.
/// Takes the best of all ranks, which have the same kind of processor; it is shared if threads outnumber cores. This is
/// what the run's own matmuls can reach, not the manufacturer's figure. Collective.
DevicePeak measure_core_peak(RankContext& context, const Options& options, const MachineShape& machine);

/// Returns the datasheet's value, if the GPU is known.
DevicePeak datasheet_peak(const Device& device, const PrecisionOptions& precision);

}  // namespace tessera
