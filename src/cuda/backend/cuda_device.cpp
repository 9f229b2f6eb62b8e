#include "tessera/backend/cuda_device.hpp"

#include <nvtx3/nvToolsExt.h>

#include <cstring>
#include <utility>
#include <vector>

#include "cuda/backend/code_capability.hpp"
#include "cuda/backend/cuda_stream.hpp"
#include "cuda/backend/stream_writes.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/cuda/check.hpp"

namespace tessera {

namespace {

/// One allocation of the GPU, or of pinned host memory.
class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(MemoryKind kind, std::int64_t bytes) : kind_(kind), size_(bytes) {
    TESSERA_ASSERT(bytes >= 0, "a region of {} bytes", bytes);
    if (bytes == 0) return;
    const auto size = static_cast<std::size_t>(bytes);
    void* memory = nullptr;
    const bool pinned = kind == MemoryKind::pinned;
    const cudaError_t code = pinned ? cudaMallocHost(&memory, size) : cudaMalloc(&memory, size);
    if (code == cudaErrorMemoryAllocation) throw_no_memory(pinned, bytes);
    TESSERA_CHECK_CUDA(code);
    data_ = static_cast<std::byte*>(memory);
    if (pinned) {
      std::memset(data_, 0, size);
    } else {
      TESSERA_CHECK_CUDA(cudaMemset(data_, 0, size));
      TESSERA_CHECK_CUDA(cudaDeviceSynchronize());  // Tessera's streams do not wait for the stream of this call
    }
  }
  ~CudaMemory() override {
    if (kind_ == MemoryKind::pinned) {
      static_cast<void>(cudaFreeHost(data_));
    } else {
      static_cast<void>(cudaFree(data_));
    }
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  std::byte* data() const override { return data_; }
  std::int64_t size() const override { return size_; }

 private:
  [[noreturn]] static void throw_no_memory(bool pinned, std::int64_t bytes) {
    static_cast<void>(cudaGetLastError());
    if (pinned) throw refusal("{} of pinned host memory cannot be allocated", format_bytes(bytes)).use("a smaller run");
    std::size_t free = 0, total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    throw refusal("{} of GPU memory cannot be allocated", format_bytes(bytes))
        .because("only {} of {} are free", format_bytes(static_cast<std::int64_t>(free)),
                 format_bytes(static_cast<std::int64_t>(total)))
        .use("a smaller run, or fewer other processes on the GPU");
  }

  MemoryKind kind_;
  std::int64_t size_;
  std::byte* data_ = nullptr;
};

/// Formats a version number of CUDA: 13020 is "13.2".
std::string version_text(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {
    const SignalsBlocked threads_of_the_driver;
    enter_thread();
    TESSERA_CHECK_CUDA(cudaGetDeviceProperties(&properties_, index));
    // The first call that needs the context makes it: here, where an error can still be told from a failed run.
    TESSERA_CHECK_CUDA(cudaFree(nullptr));
    copies_ = std::make_unique<CudaStream>();
    const auto stream = static_cast<cudaStream_t>(copies_->native());
    {
      const CudaMemory word(MemoryKind::device, sizeof(std::uint32_t));
      launch_store_word(stream, reinterpret_cast<std::uint32_t*>(word.data()), 0);  // fails without code for this GPU
      copies_->synchronize();
    }
    writes_.emplace(stream);
    free_at_start_ = free_memory();
  }

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string description() const override {
    return fmt::format("{}, {}, {}{}", model(), format_bytes(total_memory()), cuda_versions(),
                       writes_->uses_driver() ? "" : ", words written by kernels");
  }
  std::string model() const override {
    return fmt::format("{}, sm_{}{}", static_cast<const char*>(properties_.name), properties_.major, properties_.minor);
  }
  std::string identity() const override { return uuid_text(properties_.uuid); }
  std::int64_t free_memory() const override { return memory().first; }
  std::int64_t total_memory() const override { return memory().second; }
  std::optional<std::int64_t> memory_taken() const override { return free_at_start_ - free_memory(); }

  std::unique_ptr<Stream> make_caller_stream(const std::string&) override { return std::make_unique<CudaStream>(); }

  std::unique_ptr<Stream> make_stream(const std::string&, StreamPriority priority) override {
    return std::make_unique<CudaStream>(priority);
  }
  std::unique_ptr<Event> make_event(EventUse use) override { return std::make_unique<CudaEvent>(use); }
  std::int64_t nanoseconds_between(Event& begin, Event& end) override {
    end.synchronize();
    float milliseconds = 0;
    TESSERA_CHECK_CUDA(cudaEventElapsedTime(&milliseconds, cuda_event(begin).native(), cuda_event(end).native()));
    return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
  }

  std::unique_ptr<DeviceMemory> allocate(MemoryKind kind, std::int64_t bytes) override {
    return std::make_unique<CudaMemory>(kind, bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    enter_thread();  // any thread may come: writers of checkpoints do
    TESSERA_CHECK_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                                       static_cast<cudaStream_t>(copies_->native())));
    copies_->synchronize();
  }
  void fill_by_host(std::span<const std::span<std::byte>> memory,
                    const std::function<void(std::size_t, std::span<void* const>)>& write) override {
    std::vector<std::byte> buffer;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      buffer.resize(memory[i].size());
      void* const host = buffer.data();
      write(i, {&host, 1});
      copy(memory[i].data(), host, static_cast<std::int64_t>(buffer.size()));
    }
  }
  void copy(Stream& stream, void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    TESSERA_CHECK_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                                       static_cast<cudaStream_t>(stream.native())));
  }
  void write(Stream& stream, std::uint32_t& word, std::uint32_t value) override {
    writes_->write(static_cast<cudaStream_t>(stream.native()), &word, value);
  }
  void fill_nan(Stream& stream, std::span<std::byte> memory) override {
    if (memory.empty()) return;
    TESSERA_CHECK_CUDA(cudaMemsetAsync(memory.data(), 0xff, memory.size(), static_cast<cudaStream_t>(stream.native())));
  }

  void enter_thread() override { TESSERA_CHECK_CUDA(cudaSetDevice(index_)); }

  void begin_range(const char* name) override { nvtxRangePushA(name); }
  void end_range() override { nvtxRangePop(); }

  bool multiplies_fp8() const override {
    return 10 * properties_.major + properties_.minor >= kOldestWithFp8 && code_capability() >= kOldestWithFp8;
  }
  bool can_capture() const override { return true; }
  void begin_capture(Stream& stream) override {
    // Thread-local: calls of other threads (a watchdog that queries events) do not affect the capture.
    TESSERA_CHECK_CUDA(
        cudaStreamBeginCapture(static_cast<cudaStream_t>(stream.native()), cudaStreamCaptureModeThreadLocal));
  }
  std::unique_ptr<DeviceGraph> end_capture(Stream& stream) override {
    cudaGraph_t graph = nullptr;
    TESSERA_CHECK_CUDA(cudaStreamEndCapture(static_cast<cudaStream_t>(stream.native()), &graph));
    return std::make_unique<CudaGraph>(graph);
  }

 private:
  static std::pair<std::int64_t, std::int64_t> memory() {
    std::size_t free = 0, total = 0;
    TESSERA_CHECK_CUDA(cudaMemGetInfo(&free, &total));
    return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  }

  int index_;
  cudaDeviceProp properties_{};
  std::unique_ptr<CudaStream> copies_;  ///< of what the host waits for
  std::optional<StreamWrites> writes_;
  std::int64_t free_at_start_ = 0;
};

/// Returns count and code. Without a driver the count is left untouched and the code says so.
std::pair<int, cudaError_t> device_count() {
  const SignalsBlocked threads_of_the_driver;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return {code == cudaSuccess ? count : 0, code};
}

}  // namespace

bool built_with_cuda() { return true; }

int cuda_device_count() { return device_count().first; }

std::string why_no_cuda_device() {
  const auto [count, code] = device_count();
  int driver = 0;
  if (code == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return "libcuda.so.1 of the NVIDIA driver is not found";
  if (code != cudaSuccess) return cudaGetErrorString(code);
  return count == 0 ? "there is no GPU" : "";
}

std::string cuda_versions() {
  int runtime = 0, driver = 0;
  TESSERA_CHECK_CUDA(cudaRuntimeGetVersion(&runtime));
  TESSERA_CHECK_CUDA(cudaDriverGetVersion(&driver));
  return fmt::format("CUDA runtime {}, {}", version_text(runtime),
                     driver == 0 ? "no driver" : "driver " + version_text(driver));
}

std::unique_ptr<Device> make_cuda_device(int index) {
  const int count = cuda_device_count();
  if (count == 0)
    throw refusal("no GPU can be used")
        .because("{}", why_no_cuda_device())
        .use("run.device = cpu, or a machine with a GPU");
  TESSERA_ASSERT(index >= 0 && index < count, "GPU {} of {}", index, count);
  return std::make_unique<CudaDevice>(index);
}

}  // namespace tessera
