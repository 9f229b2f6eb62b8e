#include "bench/device.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

void repeat_pattern(Device& device, std::byte* memory, std::int64_t period, std::int64_t bytes) {
  for (std::int64_t done = period; done < bytes;) {  // doubles the filled part
    const std::int64_t more = std::min(done, bytes - done);
    device.copy(memory + done, memory, more);
    done += more;
  }
}

BenchDevice::BenchDevice(RankContext& context, const Options& options, const MachineShape& machine)
    : device_(backend_of(options).open_device(context, options.run.share_gpu)),
      stream_(device_->make_caller_stream("bench")),
      workspace_(device_->allocate(MemoryKind::device, kernel_needs(device_->kind()).workspace())) {
  ResourceSettings settings;
  settings.threads = threads_of(options, machine);
  settings.threads_on_cores = threads_on_cores(settings.threads, machine);
  settings.attention = options.run.attention;
  settings.deterministic = is_deterministic(options.run);
  compute_ = backend_of(options).make_compute(*device_, settings, workspace_->data(), nullptr, nullptr);
}

std::string BenchDevice::description() const {
  if (!device_->identity().empty()) return compute_->description();
  return fmt::format("{}, threads: {}", compute_->description(), compute_->pool().threads());
}

std::byte* BenchDevice::take(std::int64_t bytes) {
  return memory_.emplace_back(device_->allocate(MemoryKind::device, bytes))->data();
}

std::byte* BenchDevice::upload_as(DType dtype, const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto staged = device_->allocate(MemoryKind::device, count * size_of(DType::fp32));
  device_->copy(staged->data(), values.data(), count * size_of(DType::fp32));
  std::byte* const memory = take(count * size_of(dtype));
  kernels().cast(*stream_, staged->data(), DType::fp32, memory, dtype, count);
  stream_->synchronize();
  return memory;
}

}  // namespace tessera
