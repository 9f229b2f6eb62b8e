#include "tessera/record/machine_load.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/telemetry/provenance.hpp"

namespace tessera {

MachineLoad load_of_all(const std::vector<LoadOfRank>& ranks) {
  MachineLoad all;
  struct Gpu {
    std::int64_t processes = -1, ranks = 0;
  };
  std::map<std::string, Gpu> gpus;
  for (const LoadOfRank& rank : ranks) {
    all.load_average = std::fmax(all.load_average, rank.load_average);
    if (rank.gpu.empty()) continue;  // cores
    Gpu& gpu = gpus[rank.gpu];
    gpu.processes = std::max(gpu.processes, rank.processes);
    ++gpu.ranks;
  }
  std::int64_t foreign = 0;
  for (const auto& [name, gpu] : gpus) {
    if (gpu.processes < gpu.ranks) return all;  // a driver that does not see this run's processes does not see others
    foreign += gpu.processes - gpu.ranks;
  }
  if (!gpus.empty()) all.gpu_foreign_processes = static_cast<double>(foreign);
  return all;
}

MachineLoad machine_load(World& world, const Device& device, DeviceMonitor* monitor) {
  const auto loads = world.control().gather(std::vector{load_average()});
  const auto processes = world.control().gather(std::vector{monitor != nullptr ? monitor->processes() : -1});
  const std::vector<std::string> gpus = world.control().gather(device.identity());
  std::vector<LoadOfRank> ranks;
  for (std::size_t i = 0; i < gpus.size(); ++i) ranks.push_back({loads[i][0], processes[i][0], gpus[i]});
  return load_of_all(ranks);
}

}  // namespace tessera
