#include <catch2/catch.hpp>

#include "schedule/liveness.hpp"
#include "small_schedule.hpp"

using namespace tessera;
using tessera::testing::SmallSchedule;

TEST_CASE("bytes in use while an operation runs are those of the device, from first to last touch") {
  const SmallSchedule s;
  const auto present = presence_of(s.schedule);
  const auto life = [&](int i) {
    return SegmentLife(s.schedule, s.schedule.segments[SegmentId(i)], present[SegmentId(i)]);
  };
  CHECK(life(0).alive_bytes(OperationId(0)) == 1 + 100 + 1000);
  CHECK(life(0).alive_bytes(OperationId(1)) == 1 + 10 + 100);
  CHECK(life(1).alive_bytes(OperationId(2)) == 1 + 10);
  CHECK(life(2).alive_bytes(OperationId(3)) == 1 + 10 + 1000);
}

TEST_CASE("a storage is free after the last operation that touches it, unless it is carried on") {
  const SmallSchedule s;
  const auto present = presence_of(s.schedule);
  const SegmentLife first(s.schedule, s.schedule.segments[SegmentId(0)], present[SegmentId(0)]);
  CHECK(first.releases(OperationId(0), s.copy));
  CHECK_FALSE(first.releases(OperationId(1), s.copy));
  CHECK_FALSE(first.releases(OperationId(0), s.scratch));
  CHECK(first.releases(OperationId(1), s.scratch));
  for (const StorageId kept : {s.sum, s.rest, s.unused}) CHECK_FALSE(first.releases(OperationId(1), kept));
  const SegmentLife last(s.schedule, s.schedule.segments[SegmentId(2)], present[SegmentId(2)]);
  CHECK(last.releases(OperationId(3), s.sum));
}
