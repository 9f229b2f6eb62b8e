#pragma once
// Facts for the records of a run: how it was started and where.

#include <chrono>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
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

/// Returns the libraries whose versions are in a description of kernels: {"onednn", "2.6.3"} of "AVX-512, oneDNN 2.6.3
/// with ...".
std::vector<std::pair<std::string, std::string>> libraries_in(const std::string& kernels);

/// Collects the facts of the run. Collective; rank 0 has the hosts of all. `kernels`: their human-readable description.
RunFacts run_facts(World& world, const Options& options, const Invocation& invocation, const GpuFacts& gpu,
                   const std::string& kernels);

}  // namespace tessera
