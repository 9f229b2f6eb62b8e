// What operations do, as the engine's own code tells it.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "simulate/operation_work.hpp"
#include "simulated_run.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("The kernels of a step have the FLOPs that the model declares, under every strategy") {
  for (const std::string preset_name : {"nano", "qwen2-0.5b"}) {
    for (const StrategyRules& rules : all_strategies()) {
      const PlannedRun run = planned(preset_name, rules.strategy, 4);
      INFO(preset_name << " " << name_of(rules.strategy));
      const auto work = work_of(run.schedule, run.plan, {});
      double flops = 0, updated = 0;
      for (const Play& play : run.schedule.step) {
        for (const OperationId id : run.schedule.segments[play.segment].operations()) {
          for (const KernelCall& call : work[id].kernels) {
            flops += call.cost.flops;
            if (call.name == "adamw") updated += call.cost.bytes;
          }
        }
      }
      const auto declared = static_cast<double>(run.schedule.model.training_flops() * run.schedule.accumulation);
      CHECK(flops == Approx(declared).epsilon(1e-12));
      CHECK(updated > 0);
    }
  }
}

TEST_CASE("Collectives and copies have the schedule's bytes") {
  SchedulePolicy policy;
  policy.strategy = Strategy::hsdp;
  policy.offload = Offload::optimizer;
  const PlannedRun run = planned("nano", policy, 4);
  const auto work = work_of(run.schedule, run.plan, {});
  std::int64_t sent = 0, copied = 0;
  std::set<std::string_view> collectives;
  for (const Play& play : run.schedule.step) {
    for (const OperationId id : run.schedule.segments[play.segment].operations()) {
      if (work[id].collective != "all-reduce") sent += work[id].wire_bytes;  // scalars count apart
      copied += work[id].copied_bytes;
      if (!work[id].collective.empty()) collectives.insert(work[id].collective);
    }
  }
  CHECK(collectives.contains("all-gather"));
  CHECK(collectives.contains("reduce-scatter"));
  CHECK(sent == run.schedule.wire_bytes_per_step());
  CHECK(copied == run.schedule.copied_bytes_per_step());
}
