// Device and pinned memory. Fresh memory is full of NaN. Device memory is out of bounds for the host. Writes beyond an
// allocation's end are found when it is freed (or at once, beyond its last page).

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/state.hpp"

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::byte kFresh{0xff}, kBeyond{0xa5};
constexpr std::size_t kDeviceMemory = std::size_t{1} << 32;

struct Block {
  std::size_t bytes = 0;   ///< asked for
  std::size_t mapped = 0;  ///< pages, guard pages aside
  bool device = false;
};

struct Memory {
  std::mutex lock;
  std::map<std::byte*, Block> blocks;
  std::map<std::byte*, std::size_t> registered;  ///< host memory that was pinned where it lay
  std::int64_t device_bytes = 0, allocations = 0;
  int running = 0;    ///< pieces of device work
  bool open = false;  ///< device memory may be touched
};

Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

void protect(const std::pair<std::byte* const, Block>& block, bool open) {
  if (!block.second.device) return;
  if (mprotect(block.first, block.second.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

cudaError_t allocate(void** out, std::size_t bytes, bool device) {
  if (emulator::thread_captures()) return cudaErrorStreamCaptureUnsupported;
  Memory& m = memory();
  const std::lock_guard guard(m.lock);
  if (device && static_cast<std::size_t>(m.device_bytes) + bytes > kDeviceMemory) return cudaErrorMemoryAllocation;
  const std::size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  void* const pages =
      mmap(nullptr, mapped + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return cudaErrorMemoryAllocation;
  auto* const first = static_cast<std::byte*>(pages);
  if (mprotect(first, kPage, PROT_NONE) != 0 || mprotect(first + kPage + mapped, kPage, PROT_NONE) != 0) std::abort();
  std::byte* const data = first + kPage;
  std::memset(data, static_cast<int>(kFresh), bytes);
  std::memset(data + bytes, static_cast<int>(kBeyond), mapped - bytes);
  const auto it = m.blocks.emplace(data, Block{bytes, mapped, device}).first;
  if (!m.open) protect(*it, false);
  if (device) m.device_bytes += static_cast<std::int64_t>(bytes);
  ++m.allocations;
  *out = data;
  return cudaSuccess;
}

cudaError_t release(void* data, bool device) {
  if (data == nullptr) return cudaSuccess;
  if (emulator::thread_captures()) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t result = emulator::synchronize_device();
  Memory& m = memory();
  const std::lock_guard guard(m.lock);
  const auto it = m.blocks.find(static_cast<std::byte*>(data));
  if (it == m.blocks.end() || it->second.device != device) return cudaErrorInvalidValue;
  protect(*it, true);
  const Block& block = it->second;
  for (std::size_t i = block.bytes; i < block.mapped; ++i) {
    if (it->first[i] == kBeyond) continue;
    std::fprintf(stderr, "emulator: a write %zu bytes beyond an allocation of %zu bytes\n", i - block.bytes,
                 block.bytes);
    std::abort();
  }
  if (device) m.device_bytes -= static_cast<std::int64_t>(block.bytes);
  munmap(it->first - kPage, block.mapped + 2 * kPage);
  m.blocks.erase(it);
  return result;
}

cudaError_t copy_now(void* to, const void* from, std::size_t bytes) {
  if (emulator::thread_captures()) return cudaErrorStreamCaptureUnsupported;
  emulator::enqueue(nullptr, [=] { std::memcpy(to, from, bytes); });
  return emulator::synchronize(nullptr);
}

}  // namespace

namespace emulator {

DeviceAccess::DeviceAccess() {
  const std::lock_guard guard(memory().lock);
  ++memory().running;
  if (memory().open) return;
  memory().open = true;
  for (const auto& block : memory().blocks) protect(block, true);
}

DeviceAccess::~DeviceAccess() {
  const std::lock_guard guard(memory().lock);
  --memory().running;
}

void close_device_memory() {
  const std::lock_guard guard(memory().lock);
  if (!memory().open || memory().running > 0) return;
  memory().open = false;
  for (const auto& block : memory().blocks) protect(block, false);
}

std::int64_t allocated_bytes() {
  const std::lock_guard guard(memory().lock);
  return memory().device_bytes;
}

std::int64_t allocations() {
  const std::lock_guard guard(memory().lock);
  return memory().allocations;
}

}  // namespace emulator

using emulator::report;

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) { return report(allocate(data, bytes, true)); }
cudaError_t cudaMallocHost(void** data, std::size_t bytes) { return report(allocate(data, bytes, false)); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) { return report(allocate(data, bytes, false)); }
cudaError_t cudaFree(void* data) { return report(release(data, true)); }
cudaError_t cudaFreeHost(void* data) { return report(release(data, false)); }

cudaError_t cudaHostRegister(void* data, std::size_t bytes, unsigned) {
  const std::lock_guard guard(memory().lock);
  const bool fresh = bytes > 0 && memory().registered.emplace(static_cast<std::byte*>(data), bytes).second;
  return fresh ? cudaSuccess : report(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* data) {
  const std::lock_guard guard(memory().lock);
  const bool there = memory().registered.erase(static_cast<std::byte*>(data)) == 1;
  return there ? cudaSuccess : report(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  const auto* const place = static_cast<const std::byte*>(pointer);
  const std::lock_guard guard(memory().lock);
  for (const auto& [data, block] : memory().blocks) {
    if (place < data || place >= data + std::max<std::size_t>(block.bytes, 1)) continue;
    attributes->type = block.device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kDeviceMemory;
  *free = kDeviceMemory - static_cast<std::size_t>(emulator::allocated_bytes());
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  emulator::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  emulator::enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch,
                  width);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  emulator::enqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return report(copy_now(to, from, bytes));
}

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  if (emulator::thread_captures()) return report(cudaErrorStreamCaptureUnsupported);
  return cudaMemsetAsync(data, value, bytes, nullptr);
}

}  // extern "C"
