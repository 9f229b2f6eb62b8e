#include "tessera/schedule/build.hpp"

#include "schedule/builder.hpp"
#include "schedule/liveness.hpp"

namespace tessera {

namespace {

/// One segment per kind of micro-step, played in the order of the micro-steps.
void build_micro_steps(StepSchedule& schedule, Builder& builder, const SchedulePolicy& policy) {
  std::vector<std::pair<MicroStepKind, SegmentId>> known;
  for (std::int64_t k = 0; k < policy.accumulation; ++k) {
    const MicroStepKind kind = micro_step_kind(k, policy.accumulation, policy.deterministic);
    SegmentId segment = -1;
    for (const auto& [other, id] : known) {
      if (other == kind) segment = id;
    }
    if (segment < 0) {
      segment = builder.micro_step(kind);
      known.emplace_back(kind, segment);
    }
    schedule.step.push_back({segment, static_cast<std::int32_t>(k)});
  }
}

}  // namespace

StepSchedule build_schedule(const ModelParts& model, const ProcessGrid& grid, const SchedulePolicy& policy) {
  if (policy.accumulation < 1) throw UsageError("train.accumulation = {}: at least 1", policy.accumulation);
  StepSchedule schedule;
  schedule.model = model;
  schedule.layout = divide_into_units(model, policy.wrap, policy.min_params, grid.world());
  schedule.grid = grid;
  schedule.strategy = policy.strategy;
  schedule.compute = policy.compute;
  schedule.reduce = policy.reduce;
  schedule.accumulation = policy.accumulation;
  schedule.deterministic = policy.deterministic;

  Builder builder(schedule, policy);
  if (builder.has_prologue()) schedule.prologue.push_back({builder.prologue(), 0});
  build_micro_steps(schedule, builder, policy);
  schedule.step.push_back({builder.update(), 0});
  if (policy.evaluation) schedule.evaluation.push_back({builder.evaluation(), 0});
  if (policy.snapshot) schedule.snapshot.push_back({builder.snapshot(), 0});
  builder.add_host_memory();
  fill_carried_out(schedule);
  return schedule;
}

}  // namespace tessera
