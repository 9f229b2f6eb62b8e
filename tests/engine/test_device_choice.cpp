// A run on the CPU reports why it does not use a GPU.

#include <catch2/catch.hpp>

#include "temporary_folder.hpp"
#include "tessera/engine/device_choice.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("a build without CUDA says so wherever an NVIDIA driver runs") {
  const TemporaryFolder root;
  CHECK(unused_gpu(std::nullopt, DeviceKind::cpu, root.path()).empty());
  root.write("proc/driver/nvidia/version", "NVRM version: 1");
  CHECK_THAT(unused_gpu(std::nullopt, DeviceKind::cpu, root.path()),
             Catch::Contains("this build has no CUDA: jobs/setup.sh builds it in"));
  CHECK(unused_gpu(std::nullopt, DeviceKind::cuda, root.path()).empty());
  // The config.ini of a run on the CPU says cpu, whether or not its user did.
  CHECK_THAT(unused_gpu(DeviceKind::cpu, DeviceKind::cpu, root.path()), Catch::Contains("this build has no CUDA"));
}
