#include <catch2/catch.hpp>

#include "all_policies.hpp"
#include "sanitized.hpp"
#include "schedule/memory/conflicts.hpp"
#include "tessera/schedule/build.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// The heaviest set of storages of which no two may overlap, by trying: branch and bound over all of them.
class HeaviestSet {
 public:
  HeaviestSet(const StepSchedule& schedule, const Conflicts& conflicts) : schedule_(schedule), conflicts_(conflicts) {}

  std::int64_t find(RegionKey region) {
    std::vector<StorageId> all;
    for (const StorageId id : schedule_.storages.ids()) {
      if (region.holds(schedule_.storage(id))) all.push_back(id);
    }
    best_ = 0;
    extend(all, 0);
    return best_;
  }

 private:
  std::int64_t bytes(StorageId id) const { return planned_bytes(schedule_.storage(id)); }

  void extend(const std::vector<StorageId>& candidates, std::int64_t weight) {
    best_ = std::max(best_, weight);
    std::int64_t possible = weight;
    for (const StorageId id : candidates) possible += bytes(id);
    for (std::size_t k = 0; k < candidates.size() && possible > best_; ++k) {
      const std::vector<StorageId>& others = conflicts_.of[candidates[k]];
      std::vector<StorageId> rest;
      for (std::size_t j = k + 1; j < candidates.size(); ++j) {
        if (std::ranges::find(others, candidates[j]) != others.end()) rest.push_back(candidates[j]);
      }
      extend(rest, weight + bytes(candidates[k]));
      possible -= bytes(candidates[k]);
    }
  }

  const StepSchedule& schedule_;
  const Conflicts& conflicts_;
  std::int64_t best_ = 0;
};

}  // namespace

TEST_CASE("the heavy set is never above the heaviest found by trying them all, and most often it is that") {
  int compared = 0, heaviest = 0, draw = 0;
  for_each_policy([&](const PolicyCase& c) {
    if (++draw % (kSanitized ? 15 : 5) != 0 || c.policy.accumulation > 2) return;
    ToyShape shape;
    shape.layers = 1 + draw % 3;
    INFO(c.describe());
    const auto made = c.schedule_of(shape);
    if (!made) return;
    const StepSchedule& schedule = *made;
    const Conflicts conflicts = find_conflicts(schedule, view_segments(schedule));
    HeaviestSet set(schedule, conflicts);
    for (const RegionKind region : {RegionKind::at_rest, RegionKind::shared, RegionKind::private_}) {
      for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
        const std::int64_t found = heavy_clique(schedule, conflicts, {space, region});
        const std::int64_t best = set.find({space, region});
        REQUIRE(found <= best);
        ++compared, heaviest += found == best;
      }
    }
  });
  REQUIRE(compared > (kSanitized ? 20 : 400));
  REQUIRE(heaviest > compared * 9 / 10);
}
