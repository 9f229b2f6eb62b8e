// The kernels of operations, as the engine's own code tells it.
#include <catch2/catch.hpp>
#include <set>

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

TEST_CASE(
    "A GPU converts each operand of a linear in fp8 once forward and once backward, in all copies that are read; but "
    "what an MLP keeps is not converted again, linears of one input share its copy, weights are searched once, and a "
    "gate's backward makes copies itself") {
  const char* const preset = GENERATE("nano", "qwen3-0.6b");
  SchedulePolicy policy;
  policy.keeps_activated = GENERATE(false, true);
  policy.strategy = Strategy::ddp, policy.compute = policy.reduce = DType::bf16, policy.fp8 = Fp8Linears{};
  const PlannedRun run = planned(preset, policy, 1, 2, 32, DeviceKind::cuda);
  std::int64_t calls = 0, conversions = 0, kept = 0, gelus = 0;
  double bytes = 0, expected = 0, searched = 0, coded = 0, weights = 0, of_gates = 0, expected_of_gates = 0;
  const bool has_gelu = preset == std::string("nano");
  const auto kernels = kernels_of(run.schedule, run.plan, {});
  for (const Play& play : run.schedule.step) {
    for (const OperationId id : run.schedule.segments[play.segment].operations()) {
      for (const KernelCall& call : kernels[id]) {
        if (call.name == "to fp8") ++calls, bytes += call.cost.bytes;
        if (call.name == "largest magnitude") searched += call.cost.bytes;
        if (call.name == "to codes") coded += call.cost.bytes;
        if (call.name == "swiglu backward") of_gates += call.cost.bytes;
        gelus += call.name == "gelu" ? 1 : 0;
      }
    }
  }
  for (const Part& part : run.schedule.model.parts) {
    std::set<MatrixId> inputs;
    for (const Layer& layer : part.layers) {
      if (!layer.is_fp8) continue;
      conversions += 2;  // of the weight
      // Of a weight's codes a transposed copy, in one direction. Two passes over bf16, one where the maker finds the
      // largest magnitude, and a byte for each copy: of d output two, as it lies and transposed.
      const auto name_of = [&](const MatrixSlice& slice) { return part.matrices[slice.matrix].name; };
      const bool joins = layer.outputs[0].matrix == kPartOutput;  // nothing drops out
      const std::string output = name_of(layer.outputs[0]), input = name_of(layer.inputs[0]);
      weights += static_cast<double>(layer.in * layer.out);
      expected += 2.0 * static_cast<double>(layer.in * layer.out);
      const auto results = static_cast<double>(layer.rows * layer.out);
      const bool by_gate = output == "gate" || output == "up";
      if (output == "gate") expected_of_gates += (policy.keeps_activated ? 16.0 : 17.0) * results;
      if (!by_gate) ++conversions, expected += (joins ? 4.0 : 6.0) * results;
      if (!inputs.insert(layer.inputs[0].matrix).second) continue;
      const bool is_kept = input == "activated" && policy.keeps_activated;
      const bool is_measured = input == "normalized" || (input == "activated" && !(is_kept && has_gelu));
      const bool comes_again = input == "activated" && !is_kept && !has_gelu;
      kept += is_kept ? 1 : 0, conversions += is_kept || comes_again ? 1 : 2;
      expected += (comes_again ? 3.0 : (is_kept ? 6.0 : 10.0) - (is_measured ? is_kept ? 2.0 : 4.0 : 0)) *
                  static_cast<double>(layer.rows * layer.in);
    }
  }
  CHECK(kept == (policy.keeps_activated ? run.schedule.model.architecture.layers : 0));
  CHECK(gelus == (has_gelu ? run.schedule.model.architecture.layers - kept : 0));
  CHECK(calls == conversions);
  CHECK(bytes == expected);
  CHECK(of_gates == expected_of_gates);
  CHECK(searched == 4 * weights);  // masters, once a step
  CHECK(coded == 5 * weights);
}
