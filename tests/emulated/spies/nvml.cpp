// A driver's monitor with numbers that are known: 37% busy, 123,456,789 bytes, 345.678 W, 1410 MHz, 1.5 J more at each
// question.
// It is idle, and held back by its temperature where NVML_SPY_HOT is set. Its driver is 550.54.15, and it has
// NVML_SPY_PROCESSES processes (else none). NVML_SPY_LACKS = energy: as on GPUs that do not count it.

#include <cstdlib>
#include <cstring>

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

namespace {

constexpr int kSuccess = 0, kInvalid = 2, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7, kDeprecated = 26;
int started = 0;
char device;

int found(const void* asked) { return started > 0 && asked == &device ? kSuccess : kInvalid; }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming,concurrency-mt-unsafe): the library's names; nobody changes the environment
extern "C" {

int nvmlInit_v2() {
  ++started;
  return kSuccess;
}
int nvmlShutdown() {
  --started;
  return kSuccess;
}
int nvmlDeviceGetHandleByUUID(const char* name, void** handle) {
  if (std::strncmp(name, "GPU-", 4) != 0) return kNotFound;
  *handle = &device;
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* handle, Utilization* rates) {
  *rates = {37, 12};
  return found(handle);
}
int nvmlDeviceGetMemoryInfo(void* handle, Memory* memory) {
  *memory = {1000000000, 876543211, 123456789};
  return found(handle);
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = 345678;
  return found(handle);
}
int nvmlDeviceGetClockInfo(void* handle, unsigned kind, unsigned* megahertz) {
  if (kind != 1) return kInvalid;
  *megahertz = 1410;
  return found(handle);
}
int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* millijoules) {
  if (std::getenv("NVML_SPY_LACKS") != nullptr) return kNotSupported;
  static unsigned long long total = 1000000;
  *millijoules = total += 1500;
  return found(handle);
}

int nvmlDeviceGetPciInfo_v3(void* handle, char* place) {
  std::memset(place, 0, 36);
  std::strcpy(place + 36, "00000000:65:00.0");
  return found(handle);
}
int nvmlDeviceGetMaxClockInfo(void* handle, unsigned kind, unsigned* megahertz) {
  *megahertz = 1980;
  return kind == 1 ? found(handle) : kInvalid;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* bits) {
  // It is also idle, which the doctor leaves out, and a hot one says that hardware slows it down.
  *bits = std::getenv("NVML_SPY_HOT") != nullptr ? 0x49 : 0x1;
  return found(handle);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long*) { return kDeprecated; }  // as in CUDA 14

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "550.54.15", length);
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses(void* handle, unsigned* count, void* processes) {
  const char* const there = std::getenv("NVML_SPY_PROCESSES");
  if (processes != nullptr || *count != 0) return kInvalid;
  *count = there != nullptr ? static_cast<unsigned>(std::atoi(there)) : 0;
  return *count > 0 ? kInsufficientSize : found(handle);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,concurrency-mt-unsafe)
