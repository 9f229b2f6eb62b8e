// The passes in order: each decides about one thing, and writes its decision down.
#include "tessera/schedule/build.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/liveness.hpp"
#include "schedule/passes/compute.hpp"
#include "schedule/passes/state.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/kernels/arguments/account.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/made_values.hpp"

namespace tessera {

namespace {

/// Adds the model in the shapes of generation. All shapes read the same tables of angles.
void describe_generation(StepSchedule& schedule, const ModelParts& model) {
  const GenerationShape& shape = *schedule.policy.generation;
  const auto declare = [&](std::int64_t rows) {
    return declare_generation(model.architecture, shape.batch, rows, shape.chunk, shape.positions,
                              schedule.policy.compute, model.device, schedule.policy.fp8, model.mlp_chunk == 0);
  };
  schedule.generation_parts = GenerationParts{declare(shape.chunk), declare(1)};
  GenerationParts& parts = *schedule.generation_parts;
  if (!model.trains()) schedule.model = parts.prefill;
  for (std::size_t i = 0; i < schedule.model.constants.size(); ++i) {
    const std::int64_t elements = std::max(schedule.model.constants[i].elements, parts.prefill.constants[i].elements);
    for (ModelParts* each : {&schedule.model, &parts.prefill, &parts.decode}) each->constants[i].elements = elements;
  }
}

/// Decides whose state is kept on the host: unit by unit, the last ones first, until enough elements are offloaded.
void offload_units(StepSchedule& schedule) {
  SchedulePolicy& policy = schedule.policy;
  if (policy.offload == Offload::none) return;
  TESSERA_ASSERT(policy.offload_bucket > 0 && policy.offload_bucket % kTensorAlignment == 0, "buckets of {} elements",
                 policy.offload_bucket);
  if (policy.offload == Offload::params && life_of(policy) == ParameterLife::rest) {
    throw refusal("shard.offload = params does not work with shard.strategy = {}", name_of(policy.strategy))
        .because("it keeps full parameters on every rank")
        .use("shard.offload = optimizer");
  }
  const auto all = static_cast<double>(schedule.layout.trained_elements());
  std::int64_t wanted = std::llround(policy.offload_fraction * all);
  for (UnitId unit = schedule.layout.units.end_id() - 1; unit && wanted > 0; --unit) {
    if (!schedule.unit(unit).trains) continue;
    schedule.offloaded_from = unit;
    wanted -= schedule.unit(unit).padded;
  }
  if (!schedule.offloaded_from) policy.offload = Offload::none;
}

/// Returns the first block of which backward recomputes anything.
std::int64_t first_recomputed(const ModelParts& model, const Recomputation& recomputation) {
  const Part& first = model.parts[model.first_trained()];
  if (first.kind == PartKind::head) return model.architecture.layers;
  return std::max(first.block, 0) + (first.kind == PartKind::mlp && !recomputation.mlp ? 1 : 0);
}

/// Returns what the schedule says of model, grid and policy before anything is written.
StepSchedule described(const ModelParts& model, const ProcessGrid& grid, const SchedulePolicy& policy) {
  StepSchedule schedule;
  require_blocks(policy.recomputation, model.architecture.layers);
  schedule.policy = policy;
  // Backward computes an MLP's chunks again in any case.
  if (model.mlp_chunk > 0 && !policy.recomputation.attention) schedule.policy.recomputation = {};
  if (!gathers_are_limited(policy)) schedule.policy.limit_all_gathers = 0;
  if (!model.trains() || !policy.offload_activations) schedule.policy.inputs_in_flight = 0;
  schedule.model = model;
  if (policy.generation) describe_generation(schedule, model);
  const bool trains = model.trains(), wants_matrices = trains && rules_of(policy.optimizer).wants_matrices;
  schedule.layout = divide_into_units(model, policy.wrap, policy.min_params, grid.world(), wants_matrices);
  schedule.state.resize(schedule.layout.units.size());
  schedule.grid = grid;
  if (wants_matrices) schedule.owners = owners_of(model, schedule.layout, grid.size(rules_of(policy.strategy).state));
  if (!trains) {
    schedule.policy.offload = Offload::none;
    return schedule;
  }
  offload_units(schedule);
  if (policy.offload_activations)
    schedule.offloaded_inputs = inputs_to_offload(schedule.policy.recomputation, model.architecture.layers,
                                                  first_recomputed(model, schedule.policy.recomputation));
  return schedule;
}

/// Writes one segment per kind of micro-step, played in the order of the micro-steps.
std::vector<Play> write_micro_steps(const SchedulePolicy& policy, Compute& compute, Gradients& gradients,
                                    Scalars& scalars) {
  std::vector<Play> plays;
  struct Known {
    MicroStepKind kind, before;
    SegmentId segment;
  };
  std::vector<Known> known;
  MicroStepKind before;  // as far as it matters
  for (std::int64_t k = 0; k < policy.accumulation; ++k) {
    const MicroStepKind kind = micro_step_kind(k, policy.accumulation, policy.deterministic);
    auto same = std::ranges::find_if(known, [&](const Known& one) { return one.kind == kind && one.before == before; });
    if (same == known.end())
      same = known.insert(same, {kind, before, compute.write_micro_step(kind, before, gradients, scalars)});
    plays.push_back({same->segment, static_cast<std::int32_t>(k)});
    if (!gradients.defers()) continue;
    before = kind;
    before.first = false;
  }
  return plays;
}

void reserve_workspace(Writer& writer) {
  writer.reserve(Reserved::kernel_workspace, kernel_needs(writer.schedule().model.device).workspace());
}

/// Writes all that training plays, apart from generation.
void write_training(StepSchedule& schedule, Writer& writer, Parameters& parameters, Compute& compute) {
  const SchedulePolicy& policy = schedule.policy;
  const std::int64_t units = std::ssize(schedule.layout.units);
  Scalars scalars(writer);
  if (policy.unit_norms) writer.reserve(Reserved::unit_sums, units * std::int64_t{sizeof(ExactSum)});
  if (policy.sample_losses)
    writer.reserve(Reserved::sample_losses, SampleLosses::bytes(schedule.model.batch, policy.accumulation));
  Gradients gradients(writer, parameters.sharded(), scalars);
  schedule.gradient_limit = gradients.limit();
  reserve_workspace(writer);
  if (policy.state_sums) {
    constexpr std::int64_t kKept = sizeof(StateSums), kFound = sizeof(FoundSums);
    writer.reserve(Reserved::state_sums, units * (kKept + kFound));
    if (schedule.offloaded_from) writer.reserve(Reserved::host_state_sums, units * kKept);
  }

  parameters.carry(compute.units_gathered_first());
  if (parameters.need_prologue()) schedule.prologue.push_back({parameters.write_prologue(), 0});
  schedule.step = write_micro_steps(policy, compute, gradients, scalars);
  schedule.step.push_back({write_update(writer, parameters, gradients, scalars), 0});
  if (schedule.offloaded_from) {
    const SegmentId updates = write_host_updates(writer, parameters, gradients, scalars);
    schedule.finish.push_back({updates, 0});
    schedule.fresh = schedule.step.front().segment;
    schedule.step.front().segment = write_with_updates(writer, updates, schedule.fresh);
  }
  if (policy.replays) {
    const auto made = std::ssize(made_values(schedule, schedule.step.front().segment));
    writer.reserve(Reserved::replay_sums, made * std::int64_t{sizeof(std::uint64_t)});
  }
  if (policy.evaluation) schedule.evaluation.push_back({compute.write_evaluation(scalars), 0});
  if (policy.snapshot) schedule.snapshot.push_back({write_snapshot(writer, parameters), 0});
}

}  // namespace

StepSchedule build_schedule(const ModelParts& model, const ProcessGrid& grid, const SchedulePolicy& policy) {
  if (policy.accumulation < 1) throw refuse("train.accumulation", policy.accumulation).use("at least 1");
  TESSERA_ASSERT(model.trains() || policy.evaluation || policy.generation, "a schedule trains, evaluates or generates");
  TESSERA_ASSERT(grid.size(Group::sub) == 1 || life_of(policy) == ParameterLife::phase,
                 "slices stay where units are gathered for each phase");
  TESSERA_ASSERT(!policy.keeps_copies || grid.size(rules_of(policy.strategy).state) == 1,
                 "copies stay where one rank has all state");
  StepSchedule schedule = described(model, grid, policy);
  Writer writer(schedule);
  Parameters parameters(writer);
  Compute compute(writer, parameters);
  if (model.trains()) {
    write_training(schedule, writer, parameters, compute);
  } else {
    reserve_workspace(writer);
    if (policy.evaluation) {
      Scalars scalars(writer);
      schedule.evaluation.push_back({compute.write_evaluation(scalars), 0});
    }
  }
  if (policy.generation) {
    for (const SegmentRole role : {SegmentRole::prefill, SegmentRole::decode})
      schedule.generation.push_back({compute.write_generation(role), 0});
  }
  writer.add_host_memory();
  fill_carried_out(schedule);
  return schedule;
}

}  // namespace tessera
