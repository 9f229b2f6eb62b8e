#include <catch2/catch.hpp>

#include "tessera/backend/device_monitor.hpp"

using namespace tessera;

TEST_CASE("a GPU that is not there has no monitor, and that has a reason") {
  std::string why;
  CHECK(open_device_monitor("GPU-00000000-0000-0000-0000-000000000000", why) == nullptr);
  CHECK_THAT(why, Catch::Contains("NVML"));
}
