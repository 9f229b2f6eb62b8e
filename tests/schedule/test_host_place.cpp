// Memory on the host: its own regions in the plan, touched by loads and stores only.
#include <catch2/catch.hpp>

#include "tessera/schedule/build.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// A schedule with a buffer of `bytes` on the host, private to a step's segments or at rest.
StepSchedule with_host_buffer(std::int64_t bytes, RegionKind region) {
  StepSchedule s = build_schedule(toy_model(), grid_for(Strategy::zero3, 2, 2, 0), {});
  const bool rests = region == RegionKind::at_rest;
  s.storages.push_back({"", bytes, region, MemorySpace::host, Category::workspace, false, rests, "buffer"});
  return s;
}

/// The first operation of a kind reads and writes the last storage, too.
void touch_host(StepSchedule& s, OperationKind kind) {
  Value value;
  value.storage = StorageId(s.storages.size()) - 1;
  for (const OperationId id : s.operations.ids()) {
    if (s.operation(id).kind != kind) continue;
    value.maker = id;
    s.values.push_back(value);
    s.operations[id].writes.push_back(ValueId(s.values.size()) - 1);
    return;
  }
}

bool complains_of_host(const StepSchedule& s) {
  for (const std::string& problem : verify_schedule(s)) {
    if (problem.find("on the host") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("storages on the host lie in regions of the host and leave those of the device alone") {
  const StepSchedule without = build_schedule(toy_model(), grid_for(Strategy::zero3, 2, 2, 0), {});
  const MemoryPlan before = plan_memory(without);
  REQUIRE(before.at(MemorySpace::host).total() == 0);
  const StepSchedule s = with_host_buffer(1000, RegionKind::at_rest);
  const MemoryPlan plan = plan_memory(s);
  REQUIRE(check_memory_plan(s, plan).empty());
  REQUIRE(plan.at(MemorySpace::device).total() == before.total());
  REQUIRE(plan.at(MemorySpace::device).at_peak == before.at(MemorySpace::device).at_peak);
  REQUIRE(plan.region(MemorySpace::host, RegionKind::at_rest).bytes == 1024);
  REQUIRE(plan.at(MemorySpace::host).lower_bound() == 1024);
  REQUIRE(plan.at(MemorySpace::host).at_peak[static_cast<std::size_t>(Category::workspace)] == 1000);
  REQUIRE(plan.total() == before.total() + 1024);
  MemoryPlan small = plan;
  small.spaces[static_cast<std::size_t>(MemorySpace::host)]
      .regions[static_cast<std::size_t>(RegionKind::at_rest)]
      .bytes = 768;
  REQUIRE_FALSE(check_memory_plan(s, small).empty());
  const std::string text = print_memory(s, plan);
  REQUIRE(text.find("on the host: buffer 1.00 kB") != std::string::npos);
  REQUIRE(text.find("host, at rest") != std::string::npos);
}

TEST_CASE("a GPU's limit is its own memory, a CPU's all of it") {
  StepSchedule s = with_host_buffer(1 << 20, RegionKind::at_rest);
  const MemoryPlan plan = plan_memory(s);
  REQUIRE(limited_bytes(s, plan) == plan.total());
  s.model.device = DeviceKind::cuda;
  REQUIRE(limited_bytes(s, plan) == plan.at(MemorySpace::device).total());
}

TEST_CASE("only loads and stores touch the host, and no peer does") {
  for (const OperationKind kind : {OperationKind::forward, OperationKind::gather, OperationKind::update}) {
    StepSchedule s = with_host_buffer(4096, RegionKind::private_);
    REQUIRE_FALSE(complains_of_host(s));
    touch_host(s, kind);
    INFO(name_of(kind));
    REQUIRE(complains_of_host(s));
  }
  StepSchedule loads = with_host_buffer(4096, RegionKind::private_);
  touch_host(loads, OperationKind::load);
  REQUIRE_FALSE(complains_of_host(loads));
  REQUIRE(complains_of_host(with_host_buffer(4096, RegionKind::shared)));
}
