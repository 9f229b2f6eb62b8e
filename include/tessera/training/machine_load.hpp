#pragma once
// Who else uses the machines of a run.

#include "tessera/backend/device.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/training/recorder.hpp"

namespace tessera {

/// Collective. The load average of the busiest machine, and how many processes beside this run's ranks compute on its
/// GPUs, each GPU once. `monitor` looks at `device` where that is a GPU; may be null. Only rank 0 has the answer.
MachineLoad machine_load(World& world, const Device& device, DeviceMonitor* monitor);

/// The same from what each rank says: the load of its machine, processes on its GPU (-1: not known) and the GPU's name.
struct LoadOfRank {
  double load_average = 0;
  std::int64_t processes = -1;
  std::string gpu;
};
MachineLoad load_of_all(const std::vector<LoadOfRank>& ranks);

}  // namespace tessera
