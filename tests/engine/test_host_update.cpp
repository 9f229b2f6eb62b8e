// The figure that a run gives for the host's AdamW.
#include <catch2/catch.hpp>

#include "tessera/engine/backend.hpp"
#include "tessera/engine/host_update.hpp"

using namespace tessera;

TEST_CASE("the host's AdamW has a rate, whatever plays the queues") {
  const auto device = make_cpu_device();
  for (const QueueMode mode : {QueueMode::serial, QueueMode::parallel}) {
    ResourceSettings settings;
    settings.threads = 2;
    settings.queue_mode = mode;
    const auto compute = backend_of(DeviceKind::cpu).make_compute(*device, settings, nullptr, nullptr, nullptr);
    const double rate = host_update_rate(*compute);
    CHECK(rate > 1e6);
    CHECK(rate < 1e12);
  }
}
