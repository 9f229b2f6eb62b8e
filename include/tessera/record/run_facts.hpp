#pragma once
// Facts for the records of a run: how it was started and where.

#include <chrono>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/compute.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

/// How the process was started.
struct Invocation {
  std::vector<std::string> words;  ///< argv
  std::chrono::steady_clock::time_point start;
  double unix_start = 0;  ///< seconds since 1970
};

/// A rank's GPU; empty on cores.
struct GpuFacts {
  std::string name, driver;
};

/// Reads the facts. `monitor` observes the device if that is a GPU; may be null.
GpuFacts gpu_facts(const Device& device, DeviceMonitor* monitor);
/// The same with a separate monitor.
GpuFacts gpu_facts(const Device& device);

/// Collects the facts of the run. Collective; rank 0 has the hosts of all.
RunFacts run_facts(World& world, const Options& options, const Invocation& invocation, const GpuFacts& gpu,
                   const Implementation& kernels);

}  // namespace tessera
