#include <catch2/catch.hpp>

#include "all_policies.hpp"
#include "sanitized.hpp"
#include "schedule/memory/conflicts.hpp"
#include "tessera/schedule/build.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// The heaviest set of pairwise unordered storages, by trying: branch and bound over all of them.
class HeaviestSet {
 public:
  HeaviestSet(const StepSchedule& schedule, const SegmentView& view, RegionKey region) : view_(view) {
    for (const Presence& p : view.present) {
      if (!region.holds(schedule.storage(p.storage))) continue;
      present_.push_back(&p);
      bytes_.push_back(planned_bytes(schedule.storage(p.storage)));
    }
  }
  std::int64_t find() {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < present_.size(); ++i) all.push_back(i);
    extend(all, 0);
    return best_;
  }

 private:
  void extend(const std::vector<std::size_t>& candidates, std::int64_t weight) {
    best_ = std::max(best_, weight);
    std::int64_t possible = weight;
    for (const std::size_t i : candidates) possible += bytes_[i];
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      if (possible <= best_) return;
      const std::size_t chosen = candidates[k];
      std::vector<std::size_t> rest;
      for (std::size_t j = k + 1; j < candidates.size(); ++j) {
        const Presence &a = *present_[chosen], &b = *present_[candidates[j]];
        if (!wholly_before(view_.order, a, b) && !wholly_before(view_.order, b, a)) rest.push_back(candidates[j]);
      }
      extend(rest, weight + bytes_[chosen]);
      possible -= bytes_[chosen];
    }
  }

  const SegmentView& view_;
  std::vector<const Presence*> present_;
  std::vector<std::int64_t> bytes_;
  std::int64_t best_ = 0;
};

}  // namespace

TEST_CASE("the bound by a flow is the heaviest set found by trying them all") {
  int compared = 0, draw = 0;
  for_each_policy([&](const PolicyCase& c) {
    if (++draw % 9 != 0 || c.policy.accumulation > 2) return;
    ToyShape shape;
    shape.layers = 1 + draw % 2;
    shape.compute = c.policy.compute;
    INFO(c.describe());
    StepSchedule schedule;
    try {
      schedule = build_schedule(toy_model(shape), c.grid, c.policy);
    } catch (const UsageError&) {
      return;
    }
    for (const SegmentView& view : view_segments(schedule)) {
      for (const RegionKind region : {RegionKind::at_rest, RegionKind::shared, RegionKind::private_}) {
        for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
          REQUIRE(heaviest_antichain(schedule, view, {space, region}) ==
                  HeaviestSet(schedule, view, {space, region}).find());
          ++compared;
        }
      }
    }
  });
  REQUIRE(compared > (kSanitized ? 75 : 300));
}
