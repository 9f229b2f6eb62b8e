// A build without CUDA: the same functions, which report that it is missing.
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/device_comm_backend.hpp"
#include "tessera/kernels/cuda_kernels.hpp"

namespace tessera {

bool built_with_cuda() { return false; }

int cuda_device_count() { return 0; }

std::string why_no_cuda_device() { return "this build has no CUDA"; }

std::string cuda_versions() { return {}; }

std::unique_ptr<Device> make_cuda_device(int) {
  throw refusal("no GPU can be used")
      .because("this build has no CUDA")
      .use("run.device = cpu, or a build with TESSERA_CUDA=ON");
}

void require_nccl(RankContext&, const Device&, const CommOptions&) {}  // nobody has a device here

std::unique_ptr<DeviceCommBackend> make_device_comm_backend(RankContext&, Device&, const DeviceCommSettings&) {
  throw refusal("GPUs cannot talk to each other").because("this build has no CUDA").use("a build with TESSERA_CUDA=ON");
}

std::string nccl_version() { return "none (built without CUDA)"; }

std::unique_ptr<Kernels> make_cuda_kernels(void*, const CudaKernelSettings&) {
  throw refusal("there are no kernels for GPUs")
      .because("this build has no CUDA")
      .use("run.device = cpu, or a build with TESSERA_CUDA=ON");
}

}  // namespace tessera
