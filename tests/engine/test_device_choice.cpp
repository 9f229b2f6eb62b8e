// run.device = auto says why it leaves a GPU alone.

#include <catch2/catch.hpp>

#include "temporary_folder.hpp"
#include "tessera/engine/device_choice.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("an open choice that leaves a GPU unused is told, with the reason") {
  const TemporaryFolder root;
  CHECK(unused_gpu(DeviceChoice::automatic, DeviceChoice::cpu, root.path()).empty());
  root.write("proc/driver/nvidia/version", "NVRM version: 1");
  CHECK_THAT(unused_gpu(DeviceChoice::automatic, DeviceChoice::cpu, root.path()),
             Catch::Contains("this build has no CUDA") && Catch::Contains("run.device = cpu"));
  CHECK(unused_gpu(DeviceChoice::automatic, DeviceChoice::cuda, root.path()).empty());
  CHECK(unused_gpu(DeviceChoice::cpu, DeviceChoice::cpu, root.path()).empty());
}
