#include "tessera/backend/device_monitor.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

DeviceMonitor::DeviceMonitor(const std::string& identity)
    : library_(DynamicLibrary::open({"NVML", {"libnvidia-ml.so.1"}, {}})),
      shut_down_(library_.function<int (*)()>("nvmlShutdown")),
      utilization_(library_.function<decltype(utilization_)>("nvmlDeviceGetUtilizationRates")),
      memory_(library_.function<decltype(memory_)>("nvmlDeviceGetMemoryInfo")),
      power_(library_.function<decltype(power_)>("nvmlDeviceGetPowerUsage")),
      energy_(library_.function<decltype(energy_)>("nvmlDeviceGetTotalEnergyConsumption")),
      clock_(library_.function<decltype(clock_)>("nvmlDeviceGetClockInfo")),
      driver_(library_.function<decltype(driver_)>("nvmlSystemGetDriverVersion")),
      processes_(library_.function<decltype(processes_)>("nvmlDeviceGetComputeRunningProcesses")) {
  const auto start = library_.function<int (*)()>("nvmlInit_v2");
  const auto find = library_.function<int (*)(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByUUID");
  if (const int code = start(); code != 0)
    throw refusal("NVML does not start (code {})", code).hint("It needs a driver that runs");
  if (const int code = find(identity.c_str(), &device_); code != 0) {
    shut_down_();
    throw refusal("NVML does not know {} (code {})", identity, code).hint("It knows whole GPUs only");
  }
}

DeviceSample DeviceMonitor::sample() const {
  NvmlUtilization utilization{};
  NvmlMemory memory{};
  constexpr unsigned kMultiprocessors = 1;
  unsigned milliwatts = 0, megahertz = 0;
  unsigned long long millijoules = 0;
  DeviceSample s;
  s.utilization = utilization_(device_, &utilization) == 0 ? utilization.gpu * 0.01 : kUnknown;
  s.memory_used = memory_(device_, &memory) == 0 ? static_cast<std::int64_t>(memory.used) : -1;
  s.power = power_(device_, &milliwatts) == 0 ? milliwatts * 1e-3 : kUnknown;
  s.energy = energy_(device_, &millijoules) == 0 ? static_cast<double>(millijoules) * 1e-3 : kUnknown;
  s.clock = clock_(device_, kMultiprocessors, &megahertz) == 0 ? megahertz * 1e6 : kUnknown;
  return s;
}

DeviceHealth DeviceMonitor::health() const {
  // NVML's struct of a place on PCI, the version that ends with the name; its functions are missing in old drivers.
  struct Place {
    std::array<char, 16> short_name;
    std::array<unsigned, 5> numbers;
    std::array<char, 32> name;
  };
  // The closer reasons first: 0x8 comes with 0x40 or 0x80 where the GPU tells those apart.
  constexpr std::array<std::pair<unsigned long long, const char*>, 5> kReasons{{{0x20, "its temperature"},
                                                                                {0x40, "its temperature"},
                                                                                {0x80, "the power supply"},
                                                                                {0x8, "a fault or its power supply"},
                                                                                {0x4, "its power limit"}}};
  constexpr unsigned kMultiprocessors = 1;
  DeviceHealth health;
  try {
    Place at{};
    unsigned megahertz = 0;
    unsigned long long bits = 0;
    if (library_.function<int (*)(NvmlDevice, Place*)>("nvmlDeviceGetPciInfo_v3")(device_, &at) == 0)
      health.bus = at.name.data();
    if (library_.function<decltype(clock_)>("nvmlDeviceGetMaxClockInfo")(device_, kMultiprocessors, &megahertz) == 0)
      health.full_clock = megahertz * 1e6;
    // Its name since driver 535; the other one goes with CUDA 14.
    const char* const name = library_.find("nvmlDeviceGetCurrentClocksEventReasons") != nullptr
                                 ? "nvmlDeviceGetCurrentClocksEventReasons"
                                 : "nvmlDeviceGetCurrentClocksThrottleReasons";
    if (library_.function<int (*)(NvmlDevice, unsigned long long*)>(name)(device_, &bits) != 0) bits = 0;
    const auto* const reason = std::ranges::find_if(kReasons, [&](const auto& one) { return (bits & one.first) != 0; });
    if (reason != kReasons.end()) health.slowed = reason->second;
  } catch (const UsageError&) {  // what is known by then stands
  }
  // The system's name has a domain of four digits and small letters, NVML's one of eight.
  std::ranges::transform(health.bus, health.bus.begin(), [](unsigned char c) { return std::tolower(c); });
  if (health.bus.size() > 12) health.bus.erase(0, health.bus.size() - 12);
  return health;
}

std::string DeviceMonitor::driver_version() const {
  std::array<char, 81> text{};
  return driver_(text.data(), text.size() - 1) == 0 ? text.data() : "";
}

std::int64_t DeviceMonitor::processes() const {
  constexpr int kInsufficientSize = 7;
  unsigned count = 0;  // with capacity 0 it returns their number
  const int code = processes_(device_, &count, nullptr);
  return code == 0 || code == kInsufficientSize ? static_cast<std::int64_t>(count) : -1;
}

std::unique_ptr<DeviceMonitor> open_device_monitor(const std::string& identity, std::string& why) {
  try {
    return std::make_unique<DeviceMonitor>(identity);
  } catch (const UsageError& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace tessera
