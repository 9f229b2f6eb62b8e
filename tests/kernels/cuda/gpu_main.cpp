// The tests' main where they need a GPU: 77 (skipped) without one.

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>

#include "tessera/backend/cuda_device.hpp"

int main(int argc, char** argv) {
  if (tessera::cuda_device_count() == 0) {
    std::printf("skipped: %s\n", tessera::why_no_cuda_device().c_str());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
