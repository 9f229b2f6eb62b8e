// The tests' main for GPUs: 77 (skipped) without one.

#include <cstdio>

#include "run_catch.hpp"
#include "tessera/backend/cuda_device.hpp"

int main(int argc, char** argv) {
  if (tessera::cuda_device_count() == 0) {
    std::printf("skipped: %s\n", tessera::why_no_cuda_device().c_str());
    return 77;
  }
  return tessera::test::run_catch(argc, argv);
}
