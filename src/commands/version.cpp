#include <cstdio>

#include "tessera/backend/cuda_device.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

int run_version() {
  const auto print = [](const std::string& name, const std::string& value) {
    std::printf("%-14s %s\n", name.c_str(), value.c_str());
  };
  for (const auto& [name, value] : build_facts()) print(name, value);
  const int gpus = cuda_device_count();
  print("gpus", gpus > 0 ? fmt::format("{}", gpus) : fmt::format("0 ({})", why_no_cuda_device()));
  return 0;
}

}  // namespace tessera
