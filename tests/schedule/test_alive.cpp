#include <catch2/catch.hpp>
#include <numeric>

#include "plan_run.hpp"
#include "schedule/liveness.hpp"
#include "small_schedule.hpp"
#include "tessera/model/architecture.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/planned_run.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("categories in use add up to the bytes in use, and their peak is the plan's") {
  Options options;
  options.train.accumulation = 3;
  const PlannedRun planned = plan_run(options, preset("nano"), 2, 2);
  const StepSchedule& s = planned.schedule;
  const auto alive = alive_categories(s, MemorySpace::device);
  const auto present = presence_of(s);
  std::int64_t most = 0;
  for (const SegmentId i : s.segments.ids()) {
    const SegmentLife life(s, s.segments[i], present[i]);
    for (const OperationId id : s.segments[i].operations()) {
      const std::int64_t sum = std::accumulate(alive[id].begin(), alive[id].end(), std::int64_t{0});
      REQUIRE(sum == life.alive_bytes(id));
      most = std::max(most, sum);
    }
  }
  const SpacePlan& device = planned.plan.at(MemorySpace::device);
  CHECK(most == device.live_at_peak());
  CHECK(alive[device.peak_operation] == device.at_peak);
}

TEST_CASE("the host's memory is counted apart") {
  const testing::SmallSchedule s;
  const auto host = alive_categories(s.schedule, MemorySpace::host);
  std::int64_t there = 0;
  for (const Storage& storage : s.schedule.storages) there += storage.space == MemorySpace::host ? storage.bytes : 0;
  std::int64_t most = 0;
  for (const CategoryBytes& bytes : host)
    most = std::max(most, std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
  CHECK((there > 0 && most > 0 && most <= there));
}
