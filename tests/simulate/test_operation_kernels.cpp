// The kernels of operations, as the engine's own code tells it.
#include <catch2/catch.hpp>

#include "simulate/operation_kernels.hpp"
#include "simulated_run.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("The kernels of a step have the FLOPs that the model declares, under every strategy") {
  for (const std::string preset_name : {"nano", "qwen2-0.5b"}) {
    for (const StrategyRules& rules : all_strategies()) {
      const PlannedRun run = planned(preset_name, rules.strategy, 4);
      INFO(preset_name << " " << name_of(rules.strategy));
      const auto kernels = kernels_of(run.schedule, run.plan, {});
      double flops = 0, updated = 0;
      for (const Play& play : run.schedule.step) {
        for (const OperationId id : run.schedule.segments[play.segment].operations()) {
          for (const KernelCall& call : kernels[id]) {
            flops += call.cost.flops;
            if (call.name == "adamw") updated += call.cost.bytes;
          }
        }
      }
      const auto declared = static_cast<double>(run.schedule.model.training_flops() * run.schedule.policy.accumulation);
      CHECK(flops == Approx(declared).epsilon(1e-12));
      CHECK(updated > 0);
    }
  }
}
