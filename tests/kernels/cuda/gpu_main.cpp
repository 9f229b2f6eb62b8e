// The tests' main for GPUs: 77 (skipped) without one.

#include <cstdio>

#include "kernels/cuda/test_device.hpp"
#include "kernels/gpu/layouts.hpp"
#include "run_catch.hpp"
#include "tessera/backend/cuda_device.hpp"

namespace tessera::testing {

std::int64_t library_workspace_bytes() { return kMatmulWorkspaceBytes; }  // decides which algorithms it has
void prepare_test_device(int) {}

}  // namespace tessera::testing

int main(int argc, char** argv) {
  if (tessera::cuda_device_count() == 0) {
    std::printf("skipped: %s\n", tessera::why_no_cuda_device().c_str());
    return 77;
  }
  return tessera::test::run_catch(argc, argv);
}
