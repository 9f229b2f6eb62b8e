#pragma once
// GPU load and power as its driver reports them (NVML, loaded at run time: machines without it have no monitor).

#include <cstdint>
#include <memory>
#include <string>

namespace tessera {

/// One sample of a GPU. NaN or -1 for values that the driver does not report.
struct DeviceSample {
  double utilization = 0;        ///< share of the last interval of the driver (up to a second) in which a kernel ran
  std::int64_t memory_used = 0;  ///< bytes, by all processes
  double power = 0;              ///< watts
  double energy = 0;             ///< joules since the driver was loaded
};

class DeviceMonitor {
 public:
  virtual ~DeviceMonitor() = default;
  virtual DeviceSample sample() = 0;
  /// Returns "550.54.15"; empty where the driver does not report it.
  virtual std::string driver_version() = 0;
  /// Returns the number of processes that compute on the GPU, this one included; -1 where the driver does not report
  /// it. Some containers report 0.
  virtual std::int64_t processes() = 0;
};

/// Opens a monitor of the GPU with this Device::identity(). Returns null and sets `why` when there is none.
std::unique_ptr<DeviceMonitor> open_device_monitor(const std::string& identity, std::string& why);

}  // namespace tessera
