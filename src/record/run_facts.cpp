#include "tessera/record/run_facts.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

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

std::vector<std::pair<std::string, std::string>> libraries_in(const std::string& kernels) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"oneDNN ", "onednn"}, {"OpenBLAS ", "openblas"}, {"cuBLASLt ", "cublaslt"}, {"cuDNN ", "cudnn"}};
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [written, name] : kNames) {
    const std::size_t at = kernels.find(written);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + std::string_view(written).size();
    const std::size_t end = std::min(kernels.find_first_not_of("0123456789.", begin), kernels.size());
    if (end > begin) found.emplace_back(name, kernels.substr(begin, end - begin));
  }
  return found;
}

RunFacts run_facts(World& world, const Options& options, const Invocation& invocation, const GpuFacts& gpu,
                   const std::string& kernels) {
  RunFacts facts;
  facts.command_line = invocation.words;
  facts.start_unix_time = invocation.unix_start;
  facts.hosts = world.control().gather(world.host());
  facts.libraries = {{"mpi", mpi_version()}, {"hdf5", hdf5_version()}};
  if (built_with_cuda()) facts.libraries.emplace_back("cuda", cuda_versions());
  if (!gpu.name.empty() && world.size() > 1 && options.comm.backend != CommBackend::staged)
    facts.libraries.emplace_back("nccl", nccl_version());
  for (auto& library : libraries_in(kernels)) facts.libraries.push_back(std::move(library));
  facts.gpu_name = gpu.name;
  facts.gpu_driver = gpu.driver;
  facts.kernels = kernels;
  return facts;
}

}  // namespace tessera
