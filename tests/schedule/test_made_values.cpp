#include <catch2/catch.hpp>
#include <map>

#include "plan_run.hpp"
#include "tessera/model/architecture.hpp"
#include "tessera/schedule/made_values.hpp"
#include "tessera/schedule/planned_run.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("a micro-step makes what its parts write, and each unit's gradient once") {
  Options options;
  options.train.accumulation = 3;
  for (const auto& [strategy, recomputed] :
       {std::pair{Strategy::ddp, false}, {Strategy::zero2, true}, {Strategy::zero3, false}}) {
    options.shard.strategy = strategy;
    options.memory.checkpoint = recomputed ? ActivationCheckpointing::block : ActivationCheckpointing::none;
    const StepSchedule s = plan_run(options, preset("nano"), 2, 2).schedule;
    for (const Play& play : s.step) {
      std::map<UnitId, int> gradients;
      std::map<ValueKind, int> others;
      OperationId before = s.segments[play.segment].first;
      for (const MadeValue& made : made_values(s, play.segment)) {
        const Operation& op = s.operation(made.operation);
        REQUIRE(op.part);
        REQUIRE(made.operation >= before);
        before = made.operation;
        const Value& value = s.value(made.value);
        REQUIRE(value.maker == made.operation);
        if (value.kind == ValueKind::gradient) {
          ++gradients[value.unit];
        } else {
          ++others[value.kind];
        }
      }
      const bool computes = s.segments[play.segment].role == SegmentRole::micro_step;
      CHECK(gradients.size() == (computes ? s.layout.units.size() : 0));
      for (const auto& [unit, count] : gradients) CHECK(count == 1);
      CHECK(others.size() == (computes ? 3 : 0));
    }
  }
}
