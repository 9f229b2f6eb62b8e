#pragma once
// Where a command's results come from.

#include "tessera/backend/device.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/telemetry/provenance.hpp"
#include "tessera/training/invocation.hpp"

namespace tessera {

/// A rank's GPU; empty on cores.
struct GpuFacts {
  std::string name, driver;
};

/// `monitor` looks at the device where that is a GPU; may be null.
GpuFacts gpu_facts(const Device& device, DeviceMonitor* monitor);
/// The same with a monitor of its own.
GpuFacts gpu_facts(const Device& device);

/// The libraries whose versions a description of kernels has: {"onednn", "2.6.3"} of "AVX-512, oneDNN 2.6.3 with ...".
std::vector<std::pair<std::string, std::string>> libraries_in(const std::string& kernels);

/// Collective; rank 0 has the hosts of all. `kernels`: what computes, for people.
RunFacts run_facts(World& world, const Options& options, const Invocation& invocation, const GpuFacts& gpu,
                   const std::string& kernels);

}  // namespace tessera
