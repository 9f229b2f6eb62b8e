// The functions that nvcc's host code calls: kernels are registered with their module's PTX, and a launch plays it in
// its stream.

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "gpu_emulator/ptx/report.hpp"
#include "gpu_emulator/ptx/warp.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"

namespace {

/// The registration of a program: a wrapper around a "fat binary", entries of code for several devices one after the
/// other.
struct Wrapper {
  std::uint32_t magic, version;
  const std::byte* data;
  void* more;
};
struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct EntryHeader {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
};
constexpr std::uint32_t kWrapperMagic = 0x466243b1, kFatMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;

/// (PTX is read at a module's first launch, so that programs start at once.)
struct Module {
  std::string_view text;
  std::unique_ptr<ptx::Module> ptx;
};
struct Function {
  Module* module = nullptr;
  std::string name;
  const ptx::Kernel* kernel = nullptr;
  std::int64_t allowed_dynamic = -1;  ///< until it is set, 48 KB together with static arrays
};

struct Program {
  std::mutex lock;
  std::vector<std::unique_ptr<Module>> modules;
  std::map<const void*, Function> functions;
};
Program& program() {
  static Program all;
  return all;
}

[[noreturn]] void end(const std::string& why) {
  std::fprintf(stderr, "gpu_emulator: %s\n", why.c_str());
  std::abort();
}

/// The PTX among a fat binary's entries.
std::string_view find_ptx(const Wrapper& wrapper) {
  FatHeader header{};
  std::memcpy(&header, wrapper.data, sizeof(header));
  if (wrapper.magic != kWrapperMagic || header.magic != kFatMagic) end("a fat binary of another kind");
  const std::byte* at = wrapper.data + header.header_bytes;
  const std::byte* const last = at + header.bytes;
  while (at < last) {
    EntryHeader entry{};
    std::memcpy(&entry, at, sizeof(entry));
    if (entry.kind == kPtx) {
      const std::string_view text(reinterpret_cast<const char*>(at + entry.header_bytes), entry.bytes);
      if (text.find(".version") == std::string_view::npos) {
        end("compressed PTX: compile with --compress-mode=none");
      }
      return text;
    }
    at += entry.header_bytes + entry.bytes;
  }
  end("a module without PTX: TESSERA_CUDA_ARCHITECTURES needs one without -real");
}

/// The kernel that is registered under this address, ready to be launched, or null. The caller holds the program's
/// lock.
Function* find_function(const void* host) {
  const auto found = program().functions.find(host);
  if (found == program().functions.end()) return nullptr;
  Function& function = found->second;
  if (function.kernel != nullptr) return &function;
  try {
    if (function.module->ptx == nullptr) function.module->ptx = std::make_unique<ptx::Module>(function.module->text);
    function.kernel = function.module->ptx->kernel(function.name);
  } catch (const std::exception& e) {
    end(e.what());
  }
  if (function.kernel == nullptr) end("no PTX for kernel " + function.name);
  return &function;
}

std::uint64_t first_seed() {
  const char* const text = std::getenv("TESSERA_EMULATOR_SEED");  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::uint64_t chosen_seed = first_seed();
std::atomic<int> code_capability = 90;

}  // namespace

namespace emulator {

void set_order_seed(std::uint64_t seed) { chosen_seed = seed; }
void set_code_capability(int number) { code_capability = number; }

}  // namespace emulator

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): nvcc's own names
extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  Wrapper wrapper{};
  std::memcpy(&wrapper, binary, sizeof(wrapper));
  static const int at_exit = std::atexit(ptx::write_report);
  static_cast<void>(at_exit);
  program().modules.push_back(std::make_unique<Module>(Module{find_ptx(wrapper), nullptr}));
  return reinterpret_cast<void**>(program().modules.back().get());
}
// Kernels are started through cudaLaunchKernelEx (cuda/launch.hpp), never by <<<>>>.
unsigned __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { end("a launch by <<<>>>"); }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorNotSupported;
}
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorNotSupported; }

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  program().functions[host] = {reinterpret_cast<Module*>(handle), name};
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* host) {
  const std::lock_guard guard(program().lock);
  if (find_function(host) == nullptr) return cudaErrorInvalidDeviceFunction;
  *attributes = {};
  attributes->ptxVersion = code_capability;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute, int value) {
  const std::lock_guard guard(program().lock);
  Function* const function = find_function(host);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorNotSupported;
  if (value < 0 || function->kernel->static_shared + value > emulator::shared_memory()) return cudaErrorInvalidValue;
  function->allowed_dynamic = value;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host, void** arguments) {
  if (emulator::capability() < 8) return cudaErrorNoKernelImageForDevice;
  const ptx::Kernel* kernel = nullptr;
  {
    const std::lock_guard guard(program().lock);
    const Function* const function = find_function(host);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    kernel = function->kernel;
    const std::int64_t allowed =
        function->allowed_dynamic < 0 ? (48 << 10) - kernel->static_shared : function->allowed_dynamic;
    if (static_cast<std::int64_t>(config->dynamicSmemBytes) > allowed) return cudaErrorInvalidValue;
  }
  if (config->numAttrs != 0) return cudaErrorNotSupported;
  ptx::Launch launch;
  launch.kernel = kernel;
  launch.grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z};
  launch.block = {config->blockDim.x, config->blockDim.y, config->blockDim.z};
  launch.dynamic_shared = static_cast<std::int64_t>(config->dynamicSmemBytes);
  launch.parameters.resize(static_cast<std::size_t>(kernel->parameter_bytes));
  for (std::size_t p = 0; p < kernel->parameters.size(); ++p) {
    const ptx::Parameter& place = kernel->parameters[p];
    std::memcpy(launch.parameters.data() + place.offset, arguments[p], static_cast<std::size_t>(place.bytes));
  }
  emulator::enqueue(config->stream, [launch] { ptx::play(launch, chosen_seed); });
  return cudaSuccess;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
