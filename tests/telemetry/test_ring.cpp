#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/telemetry/ring.hpp"

using namespace tessera;

TEST_CASE("a ring keeps the last operations in order") {
  CHECK_THROWS_AS(OperationRing(0), InternalError);
  for (const std::size_t capacity : {1, 2, 7, 64}) {
    OperationRing ring(capacity);
    CHECK(ring.snapshot().empty());
    for (std::int32_t i = 0; i < 100; ++i) {
      const auto sequence = ring.begin(i, i % 13, i % 5 - 1, std::int64_t{1} << (i % 60));
      CHECK(sequence == static_cast<std::uint64_t>(i));
      if (i % 3 != 0) ring.end(sequence);
      const auto entries = ring.snapshot();
      REQUIRE(entries.size() == std::min<std::size_t>(capacity, static_cast<std::size_t>(i) + 1));
      for (std::size_t k = 0; k < entries.size(); ++k) {
        const auto n = static_cast<std::int32_t>(i + 1) - static_cast<std::int32_t>(entries.size() - k);
        CHECK(entries[k].sequence == static_cast<std::uint64_t>(n));
        CHECK(entries[k].operation == n);
        CHECK(entries[k].kind == n % 13);
        CHECK(entries[k].unit == n % 5 - 1);
        CHECK(entries[k].bytes == std::int64_t{1} << (n % 60));
        CHECK((entries[k].end_ns >= entries[k].start_ns) == (n % 3 != 0));
      }
    }
    CHECK(ring.entered() == 100);
  }
}

TEST_CASE("the end of an operation that was overwritten changes nothing") {
  OperationRing ring(2);
  const auto first = ring.begin(1, 0, 0, 0);
  ring.begin(2, 0, 0, 0);
  ring.begin(3, 0, 0, 0);
  ring.end(first);
  for (const RingEntry& entry : ring.snapshot()) CHECK(entry.end_ns == 0);
}

TEST_CASE("a reader sees whole entries only, while lanes write") {
  OperationRing ring(16);
  std::atomic<bool> stop{false};
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < 3; ++lane) {
    lanes.emplace_back([&] {
      // Every field follows from the operation's number.
      for (std::int32_t i = 0; !stop; i = (i + 1) % 1000000)
        ring.end(ring.begin(i, i % 7, i % 11, std::int64_t{3} * i));
    });
  }
  std::size_t seen = 0;
  while (seen < 20000) {
    const auto entries = ring.snapshot();
    for (std::size_t k = 0; k < entries.size(); ++k) {
      const RingEntry& e = entries[k];
      const bool whole = e.kind == e.operation % 7 && e.unit == e.operation % 11 &&
                         e.bytes == std::int64_t{3} * e.operation && (e.end_ns == 0 || e.end_ns >= e.start_ns) &&
                         (k == 0 || entries[k - 1].sequence < e.sequence);
      if (!whole) {
        stop = true;
        for (auto& lane : lanes) lane.join();
        FAIL("a torn entry, operation " << e.operation);
      }
    }
    seen += entries.size();
  }
  stop = true;
  for (auto& lane : lanes) lane.join();
  SUCCEED();
}
