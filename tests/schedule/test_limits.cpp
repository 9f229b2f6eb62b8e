// Limits of unsharded units and units in flight: a schedule that exceeds one is rejected.
#include <catch2/catch.hpp>

#include "tessera/schedule/build.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

StepSchedule with_limit(std::int64_t limit) {
  ToyShape shape;
  shape.layers = 6;
  SchedulePolicy policy;
  policy.limit_all_gathers = limit;
  policy.prefetch.forward = policy.prefetch.backward = limit;  // far enough ahead that the limit is reached
  return build_schedule(toy_model(shape), grid_for(Strategy::zero3, 2, 2, 0), policy);
}

bool says(const std::vector<std::string>& problems, const std::string& text) {
  return std::ranges::any_of(problems, [&](const std::string& p) { return p.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a schedule with one more gathered unit alive than the limit allows is rejected") {
  for (std::int64_t limit = 1; limit <= 4; ++limit) {
    StepSchedule schedule = with_limit(limit);
    REQUIRE(schedule.policy.limit_all_gathers == limit);
    REQUIRE(verify_schedule(schedule).empty());
    schedule = with_limit(limit + 1);
    schedule.policy.limit_all_gathers = limit;
    REQUIRE(says(verify_schedule(schedule),
                 fmt::format("{} gathered units may be alive, the limit is {}", limit + 1, limit)));
  }
}

TEST_CASE("a schedule with one more gradient in flight than the limit allows is rejected") {
  StepSchedule schedule = with_limit(2);
  const std::int64_t limit = schedule.gradient_limit;
  REQUIRE(limit > 1);
  schedule.gradient_limit = limit - 1;
  REQUIRE(says(verify_schedule(schedule),
               fmt::format("{} full gradients may be in flight, the limit is {}", limit, limit - 1)));
}
