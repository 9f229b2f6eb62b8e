#pragma once
// GPU load and power as its driver reports them (NVML, loaded at run time: machines without it have no monitor).

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/backend/dynamic_library.hpp"

namespace tessera {

/// One sample of a GPU. NaN or -1 for values that the driver does not report.
struct DeviceSample {
  double utilization = 0;        ///< share of the last interval of the driver (up to a second) in which a kernel ran
  std::int64_t memory_used = 0;  ///< bytes, by all processes
  double power = 0;              ///< watts
  double energy = 0;             ///< joules since the driver was loaded
  double clock = 0;              ///< Hz, of the multiprocessors
};

/// The limits that hold a GPU back. Values that the driver does not report are 0 or empty.
struct DeviceHealth {
  double full_clock = 0;  ///< Hz, the most of the multiprocessors
  std::string slowed;     ///< why the clock is held below that, other than for want of work; "its temperature"
  std::string bus;        ///< "0000:65:00.0", its place on PCI as the system names it
};

/// NVML's functions by name, with the few types that they need: its header is not everywhere, and its ABI is stable.
class DeviceMonitor {
 public:
  /// Opens NVML and in it the GPU of this Device::identity(). UsageError saying why where there is none.
  explicit DeviceMonitor(const std::string& identity);
  ~DeviceMonitor() { shut_down_(); }
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  DeviceSample sample() const;
  DeviceHealth health() const;
  /// Returns "550.54.15"; empty where the driver does not report it.
  std::string driver_version() const;
  /// Returns the number of processes that compute on the GPU, this one included; -1 where the driver does not report
  /// it. Some containers report 0.
  std::int64_t processes() const;

 private:
  using NvmlDevice = struct NvmlDeviceHandle*;
  struct NvmlUtilization {
    unsigned gpu, memory;  ///< percent
  };
  struct NvmlMemory {
    unsigned long long total, free, used;
  };

  DynamicLibrary library_;
  int (*shut_down_)();
  int (*utilization_)(NvmlDevice, NvmlUtilization*);
  int (*memory_)(NvmlDevice, NvmlMemory*);
  int (*power_)(NvmlDevice, unsigned*);
  int (*energy_)(NvmlDevice, unsigned long long*);
  int (*clock_)(NvmlDevice, unsigned kind, unsigned*);
  int (*driver_)(char*, unsigned);
  int (*processes_)(NvmlDevice, unsigned*, void*);
  NvmlDevice device_ = nullptr;
};

/// Opens a monitor of the GPU with this Device::identity(). Returns null and sets `why` when there is none.
std::unique_ptr<DeviceMonitor> open_device_monitor(const std::string& identity, std::string& why);

}  // namespace tessera
