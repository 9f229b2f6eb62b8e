// The smaller parts of the runtime: devices, errors, delays.

#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/state.hpp"

namespace {

std::atomic<int> device_count{1}, major_version{9}, minor_version{0};
std::atomic<std::uint64_t> seed{1};
thread_local int device = 0;
/// The devices that the calling thread sees; count 0: all.
struct Mask {
  int first = 0, count = 0;
};
thread_local Mask mask;
int visible() { return mask.count > 0 ? mask.count : device_count.load(); }
thread_local cudaError_t last_error = cudaSuccess;
thread_local bool captures = false;
std::mutex failure_lock;
std::string failure;

}  // namespace

namespace emulator {

void set_device_count(int count) { device_count = count; }
void see_devices(int first, int count) { mask = {first, count}; }
void set_capability(int major, int minor) { major_version = major, minor_version = minor; }
int capability() { return major_version; }
int shared_memory() { return (major_version == 8 && minor_version > 0 ? 99 : 163) * 1024; }
void set_chaos(std::uint64_t value) { seed = value; }
std::uint64_t chaos_seed() { return seed; }
int current_device() { return device; }
bool& thread_captures() { return captures; }

cudaError_t report(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

void note_failure(const std::string& text) {
  std::fprintf(stderr, "emulator: a piece of work failed: %s\n", text.c_str());
  const std::lock_guard guard(failure_lock);
  failure = text;
}

std::string take_failure() {
  const std::lock_guard guard(failure_lock);
  return std::exchange(failure, {});
}

void maybe_delay(std::minstd_rand& random) {
  if (seed != 0 && random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
}

}  // namespace emulator

using emulator::report;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = visible();
  return *count > 0 ? cudaSuccess : report(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= visible()) return report(cudaErrorInvalidDevice);
  device = mask.first + index;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* index) {
  *index = device - mask.first;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (index < 0 || index >= visible()) return report(cudaErrorInvalidDevice);
  index += mask.first;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated GPU");
  properties->major = major_version, properties->minor = minor_version;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = std::size_t{1} << 32;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = static_cast<std::size_t>(emulator::shared_memory());
  properties->sharedMemPerMultiprocessor = 228 * 1024;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->uuid.bytes[15] = static_cast<char>(index + 1);
  properties->pciBusID = index + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp properties;
  const cudaError_t result = cudaGetDeviceProperties(&properties, index);
  if (result != cudaSuccess) return result;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    default:
      return report(cudaErrorNotSupported);
  }
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int index) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", index + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (captures) return report(cudaErrorStreamCaptureUnsupported);
  return report(emulator::synchronize_device());
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    default:
      return "an error of the emulated runtime";
  }
}

const char* cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }

}  // extern "C"
