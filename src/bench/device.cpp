#include "bench/device.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/kernels/cuda_kernels.hpp"
#include "tessera/kernels/workspace.hpp"

namespace tessera {

void repeat_pattern(Device& device, std::byte* memory, std::int64_t period, std::int64_t bytes) {
  for (std::int64_t done = period; done < bytes;) {  // doubles the filled part
    const std::int64_t more = std::min(done, bytes - done);
    device.copy(memory + done, memory, more);
    done += more;
  }
}

std::unique_ptr<Stream> make_bench_stream(Device& device) {
  return device.kind() == DeviceKind::cpu ? make_serial_stream("bench") : device.make_stream("bench");
}

BenchDevice::BenchDevice(RankContext& context, const Options& options, const MachineShape& machine) {
  const DeviceKind kind = options.run.device == DeviceChoice::cuda ? DeviceKind::cuda : DeviceKind::cpu;
  device_ = open_device(context, kind, options.run.share_gpu);
  stream_ = make_bench_stream(*device_);
  if (kind == DeviceKind::cuda) {
    workspace_ = device_->allocate(MemoryKind::device, kernel_workspace_bytes(DeviceKind::cuda));
    CudaKernelSettings settings;
    settings.attention = options.run.attention, settings.deterministic = is_deterministic(options.run);
    settings.products.times = !settings.deterministic;  // as in a session
    kernels_ = make_cuda_kernels(workspace_->data(), settings);
    return;
  }
  const int threads = threads_of(options, machine);
  pool_ = std::make_unique<ThreadPool>(threads, threads_on_cores(threads, machine));
  kernels_ = make_cpu_kernels(*pool_);
}

std::string BenchDevice::description() const {
  if (pool_ == nullptr) return device_->description() + ", " + kernels_->description();
  return fmt::format("{}, threads: {}", kernels_->description(), pool_->threads());
}

std::byte* BenchDevice::take(std::int64_t bytes) {
  return memory_.emplace_back(device_->allocate(MemoryKind::device, bytes))->data();
}

std::byte* BenchDevice::upload_as(DType dtype, const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto staged = device_->allocate(MemoryKind::device, count * size_of(DType::fp32));
  device_->copy(staged->data(), values.data(), count * size_of(DType::fp32));
  std::byte* const memory = take(count * size_of(dtype));
  kernels_->cast(*stream_, staged->data(), DType::fp32, memory, dtype, count);
  stream_->synchronize();
  return memory;
}

}  // namespace tessera
