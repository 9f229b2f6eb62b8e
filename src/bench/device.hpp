#pragma once
// The equipment of a bench: this rank's device, one stream, its kernels, and memory that lives as long. It is the same
// for cores and GPUs.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/compute.hpp"
#include "tessera/training/session.hpp"

namespace tessera {

/// Repeats the first `period` bytes of a device's memory over all `bytes` of it.
void repeat_pattern(Device& device, std::byte* memory, std::int64_t period, std::int64_t bytes);

class BenchDevice {
 public:
  /// Opens run.device, which is cpu or cuda here. Collective over the world. Throws the errors of Backend::open_device.
  BenchDevice(RankContext& context, const Options& options, const MachineShape& machine);

  Device& device() const { return *device_; }
  Stream& stream() const { return *stream_; }
  Kernels& kernels() const { return compute_->kernels(Queue::compute); }
  /// Returns "AVX-512, oneDNN 2.6.3, 2 threads", "NVIDIA H200, ...".
  std::string description() const;

  /// Allocates zeroed memory of the device. Throws UsageError if too little is left.
  std::byte* take(std::int64_t bytes);
  /// Allocates device memory and copies the host's values there.
  template <class T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    std::byte* const memory = take(bytes);
    device_->copy(memory, values.data(), bytes);
    return reinterpret_cast<T*>(memory);
  }
  /// Allocates memory of `count` elements of `dtype`, filled with rounded fp32 values of the host.
  std::byte* upload_as(DType dtype, const std::vector<float>& values);

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<DeviceMemory> workspace_;  ///< of the kernels
  std::unique_ptr<RankCompute> compute_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
};

}  // namespace tessera
