#include "tessera/backend/cuda_device.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

bool built_with_cuda() { return false; }

int cuda_device_count() { return 0; }

std::string why_no_cuda_device() { return "this build has no CUDA"; }

std::string cuda_versions() { return {}; }

std::unique_ptr<Device> make_cuda_device(int) {
  throw UsageError("no GPU can be used (built without CUDA): run.device = cpu, or a build with TESSERA_CUDA=ON");
}

}  // namespace tessera
