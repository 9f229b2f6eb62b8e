#include "tessera/engine/device_choice.hpp"

#include <fmt/format.h>

#include "engine/backends.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

DeviceKind resolved_device(DeviceChoice choice) {
  if (choice && !traits_of(*choice).is_accelerator) return *choice;
  const bool there = cuda_device_count() > 0;
  if (!choice) return there ? DeviceKind::cuda : DeviceKind::cpu;
  if (!there)
    throw refuse("run.device", "cuda").because("{}", why_no_cuda_device()).use("cpu, auto, or a machine with a GPU");
  return *choice;
}

std::string unused_gpu(DeviceChoice asked, DeviceKind used, const std::filesystem::path& root) {
  if (traits_of(used).is_accelerator) return {};
  std::error_code ignored;
  if (!std::filesystem::exists(root / "proc/driver/nvidia/version", ignored)) return {};
  if (!built_with_cuda())
    return fmt::format(
        "an NVIDIA driver runs here, but {}: jobs/setup.sh builds it in where a CUDA toolkit is installed",
        why_no_cuda_device());
  if (asked) return {};
  return fmt::format(
      "an NVIDIA driver runs here, but this run computes on the CPU ({}); run.device = cpu if that is meant",
      why_no_cuda_device());
}

const Backend& backend_of(DeviceKind kind) { return kind == DeviceKind::cuda ? gpu_backend() : cpu_backend(); }

const Backend& backend_of(const Options& options) { return backend_of(device_of(options.run)); }

}  // namespace tessera
