#include <catch2/catch.hpp>

#include "tessera/training/session.hpp"

using namespace tessera;

TEST_CASE("every step is timed on cores, every 50th on a GPU, and at least as many as are wanted") {
  Options options;
  CHECK(steps_between_timed(options, DeviceKind::cpu, 1000, 10) == 1);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 1000, 10) == 50);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 499, 10) == 49);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 20, 10) == 2);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 3, 10) == 1);
  CHECK(steps_between_timed(options, DeviceKind::cuda, 3, 0) == 50);  // a bench
  options.metrics.time_every = 7;
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    CHECK(steps_between_timed(options, device, 1000, 10) == 7);
    CHECK(steps_between_timed(options, device, 60, 10) == 6);
  }
}
