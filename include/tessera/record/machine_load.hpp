#pragma once
// Other load on the machines of a run.

#include <limits>

#include "tessera/backend/device.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

/// How busy the machines are; NaN if that is not known.
struct MachineLoad {
  double load_average = std::numeric_limits<double>::quiet_NaN();           ///< of the busiest machine
  double gpu_foreign_processes = std::numeric_limits<double>::quiet_NaN();  ///< on the GPUs of all ranks
};

/// Returns the load average of the busiest machine, and the number of foreign processes that compute on the ranks'
/// GPUs, with each GPU counted once. `monitor` observes `device` if that is a GPU; may be null. Only rank 0 has the
/// answer. Collective.
MachineLoad machine_load(World& world, const Device& device, DeviceMonitor* monitor);

/// One rank's contribution: the load of its machine, processes on its GPU (-1: not known) and the GPU's name.
struct LoadOfRank {
  double load_average = 0;
  std::int64_t processes = -1;
  std::string gpu;
};
MachineLoad load_of_all(const std::vector<LoadOfRank>& ranks);

}  // namespace tessera
