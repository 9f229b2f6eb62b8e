#include "tessera/record/run_facts.hpp"

#include <algorithm>
#include <iterator>

#include "tessera/backend/cuda_device.hpp"
#include "tessera/comm/device_comm_backend.hpp"
#include "tessera/files/hdf5.hpp"

namespace tessera {

GpuFacts gpu_facts(const Device& device, DeviceMonitor* monitor) {
  if (device.identity().empty()) return {};  // cores
  return {device.model(), monitor != nullptr ? monitor->driver_version() : ""};
}

GpuFacts gpu_facts(const Device& device) {
  std::string why;
  const auto monitor = device.identity().empty() ? nullptr : open_device_monitor(device.identity(), why);
  return gpu_facts(device, monitor.get());
}

RunFacts run_facts(World& world, const Options& options, const Invocation& invocation, const GpuFacts& gpu,
                   const Implementation& kernels) {
  RunFacts facts;
  facts.command_line = invocation.words;
  facts.start_unix_time = invocation.unix_start;
  facts.hosts = world.control().gather(world.host());
  facts.libraries = {{"mpi", mpi_version()}, {"hdf5", hdf5_version()}};
  if (built_with_cuda()) facts.libraries.emplace_back("cuda", cuda_versions());
  if (!gpu.name.empty() && world.size() > 1 && options.comm.backend != CommBackend::staged)
    facts.libraries.emplace_back("nccl", nccl_version());
  std::ranges::copy(kernels.libraries, std::back_inserter(facts.libraries));
  facts.gpu_name = gpu.name;
  facts.gpu_driver = gpu.driver;
  facts.kernels = kernels.text;
  return facts;
}

}  // namespace tessera
