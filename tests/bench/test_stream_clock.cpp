#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "bench/stream_clock.hpp"

using namespace tessera;

namespace {

void sleep_milliseconds(void* /*self*/, std::int64_t milliseconds, Stream& /*stream*/) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void wait_until_set(void* flag, std::int64_t /*argument*/, Stream& /*stream*/) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a clock tells each stretch once, in order, however often it is read") {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream("bench");
  StreamClock clock(*device, *stream);
  CHECK(clock.take().empty());
  const auto stretch = [&](int milliseconds) {
    clock.begin();
    stream->submit({sleep_milliseconds, nullptr, milliseconds});
    clock.end();
    stream->submit({sleep_milliseconds, nullptr, 1});  // between stretches
  };
  for (int round = 0; round < 3; ++round) {
    for (const int milliseconds : {0, 20, 2}) stretch(milliseconds);
    if (round == 1) stretch(5);
    const std::vector<double> seconds = clock.take();
    REQUIRE(seconds.size() == (round == 1 ? 4 : 3));
    // A sleep is at least as long as it was asked to be.
    CHECK((seconds[0] >= 0 && seconds[1] >= 0.020 && seconds[2] >= 0.002));
    if (round == 1) CHECK(seconds[3] >= 0.005);
    CHECK(clock.take().empty());
  }
}

TEST_CASE("a clock does not wait for the work until it is read") {
  const auto device = make_cpu_device();
  const auto stream = device->make_stream("bench");
  StreamClock clock(*device, *stream);
  std::atomic<bool> may_end{false};
  clock.begin();
  stream->submit({wait_until_set, &may_end, 0});
  clock.end();  // hangs here if it waits
  may_end = true;
  CHECK(clock.take().size() == 1);
}
