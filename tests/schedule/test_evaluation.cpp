// A schedule that only evaluates: the model of a training, with parameters alone at rest.
#include <algorithm>
#include <catch2/catch.hpp>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

StepSchedule schedule_of(Strategy strategy, bool token_losses, DType compute = DType::fp32) {
  SchedulePolicy policy;
  policy.strategy = strategy;
  policy.compute = compute;
  policy.token_losses = token_losses;
  ToyShape shape;
  shape.compute = compute;
  return build_schedule(frozen(toy_model(shape)), grid_for(strategy, 4, 4, rules_of(strategy).is_hybrid() ? 2 : 0),
                        policy);
}

}  // namespace

TEST_CASE("A schedule that only evaluates keeps parameters in the compute type, and one segment") {
  for (const StrategyRules& rules : all_strategies()) {
    for (const DType compute : {DType::fp32, DType::bf16}) {
      for (const bool token_losses : {false, true}) {
        INFO(rules.name);
        const StepSchedule s = schedule_of(rules.strategy, token_losses, compute);
        REQUIRE(verify_schedule(s).empty());
        REQUIRE(check_memory_plan(s, plan_memory(s, {true, 0})).empty());
        CHECK_FALSE(s.trains());
        CHECK((s.segments.size() == 1 && s.evaluation.size() == 1));
        CHECK(s.reserved(Reserved::scalars));
        std::int64_t parameters = 0, state = 0;
        for (const Storage& storage : s.storages) {
          if (storage.category == Category::parameters) parameters += storage.bytes;
          if (storage.category == Category::gradients || storage.category == Category::optimizer_state)
            state += storage.bytes;
        }
        const std::int64_t members = rules.life == ParameterLife::rest ? 1 : s.grid.size(rules.state);
        CHECK(parameters == s.layout.padded_elements() / members * size_of(compute));
        CHECK(state == 0);
        const auto stores = std::ranges::count(s.operations, OperationKind::store, &Operation::kind);
        CHECK(stores == (token_losses ? 1 : 0));
      }
    }
  }
}

TEST_CASE("Losses of tokens that do not reach the host, or in another type, are rejected") {
  StepSchedule s = schedule_of(Strategy::zero3, true);
  const auto store = std::ranges::find(s.operations, OperationKind::store, &Operation::kind);
  REQUIRE(store != s.operations.end());
  const ValueId copy = store->writes.at(0);
  StepSchedule other = s;
  other.values[copy].elements -= 1;
  CHECK(rejected(other, "the copy is of the same kind"));
  other = s;
  other.storages[s.value(copy).storage].space = MemorySpace::device;
  CHECK(rejected(other, "on the host"));
}

TEST_CASE("The printed schedule names the losses that go to the host") {
  const StepSchedule s = schedule_of(Strategy::zero3, true);
  const std::string text = print_schedule(s, plan_memory(s, {true, 0}));
  CHECK(text.find("token losses") != std::string::npos);
  CHECK(text.find("played for each evaluation batch") != std::string::npos);
}
