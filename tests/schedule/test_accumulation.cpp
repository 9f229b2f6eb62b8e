#include <bit>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "schedule/accumulation.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"
#include "toy_model.hpp"

using namespace tessera;

namespace {

/// The fixed tree over micro-batches [first, first + count) as text: a node splits at the largest power of two below
/// its size.
std::string tree(std::int64_t first, std::int64_t count) {
  if (count == 1) return std::to_string(first);
  const auto left = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count - 1)));
  return "(" + tree(first, left) + "+" + tree(first + left, count - left) + ")";
}

/// Plays the micro-steps of a step with texts in place of gradients.
class Accumulation {
 public:
  explicit Accumulation(std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
      const MicroStepKind kind = micro_step_kind(k, count, true);
      CHECK(kind.first == (k == 0));
      CHECK(kind.last == (k == count - 1));
      std::string sum = std::to_string(k);
      for (const int slot : kind.merged_slots) {
        REQUIRE(slots_.contains(slot));
        sum = "(" + slots_[slot] + "+" + sum + ")";
        slots_.erase(slot);
      }
      result_ = sum;
      if (kind.last) continue;
      REQUIRE_FALSE(slots_.contains(kind.result_slot));
      // In a new slot, or in place of the one that was merged last.
      const bool in_place = !kind.merged_slots.empty() && kind.merged_slots.back() == kind.result_slot;
      CHECK(kind.ends_block() == in_place);
      slots_[kind.result_slot] = sum;
      highest_ = std::max(highest_, kind.result_slot + 1);
    }
  }
  const std::string& result() const { return result_; }
  bool is_empty() const { return slots_.empty(); }
  int slots() const { return highest_; }

 private:
  std::map<int, std::string> slots_;
  std::string result_;
  int highest_ = 0;
};

}  // namespace

TEST_CASE("micro-batches add up in the fixed tree, in log2 of their number of slots") {
  for (std::int64_t count = 1; count <= 67; ++count) {
    INFO(count << " micro-steps");
    const Accumulation played(count);
    REQUIRE(played.result() == tree(0, count));
    REQUIRE(played.is_empty());
    REQUIRE(played.slots() <= static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - 1);
  }
}

TEST_CASE("without determinism a running sum waits in slot 0") {
  for (std::int64_t k = 0; k < 5; ++k) {
    const MicroStepKind kind = micro_step_kind(k, 5, false);
    CHECK(kind.merged_slots == (k == 0 ? std::vector<int>{} : std::vector<int>{0}));
    CHECK(kind.result_slot == 0);
    CHECK((kind.first == (k == 0) && kind.last == (k == 4)));
  }
  CHECK(micro_step_kind(1, 5, false) == micro_step_kind(3, 5, false));  // one segment
}

TEST_CASE("backward adds to a running sum itself, except before a sum over ranks that reads another type or place") {
  const auto sums_in = [](const StepSchedule& s, const Play& play) {
    return std::ranges::count_if(s.segments[play.segment].operations(),
                                 [&](OperationId id) { return s.operation(id).kind == OperationKind::accumulate; });
  };
  for (const std::int64_t world : {1, 2}) {
    SchedulePolicy policy;
    policy.strategy = Strategy::ddp, policy.reduce_each_micro_step = false, policy.accumulation = 4;
    policy.deterministic = false, policy.adds_in_backward = true;
    const StepSchedule s = build_schedule(testing::toy_model(), grid_for(policy.strategy, world, world, 0), policy);
    INFO(world << " ranks");
    REQUIRE(verify_schedule(s).empty());
    REQUIRE(check_memory_plan(s, plan_memory(s)).empty());
    for (std::size_t k = 0; k < 3; ++k) CHECK(sums_in(s, s.step[k]) == 0);
    CHECK(sums_in(s, s.step[3]) == (world == 1 ? 0 : std::ssize(s.layout.units)));
    policy.adds_in_backward = false;
    const StepSchedule apart = build_schedule(testing::toy_model(), s.grid, policy);
    CHECK(sums_in(apart, apart.step[1]) == std::ssize(s.layout.units));
    CHECK(plan_memory(s).total() <= plan_memory(apart).total());
  }
}
