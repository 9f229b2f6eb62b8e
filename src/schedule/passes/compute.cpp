#include "schedule/passes/compute.hpp"

namespace tessera {

namespace {

/// Returns the name that tells apart the kinds of a step's micro-steps: "micro-step merging 2".
std::string name_of(const MicroStepKind& kind, const SchedulePolicy& policy) {
  if (policy.accumulation == 1) return "micro-step";
  if (kind.first || kind.last) return kind.first ? "micro-step first" : "micro-step last";
  if (!policy.deterministic) return "micro-step";
  return fmt::format("micro-step merging {}{}", kind.merged_slots.size(), kind.ends_block() ? " in place" : "");
}

}  // namespace

Compute::Compute(Writer& writer, Parameters& parameters) : w_(writer), parameters_(parameters), copies_(writer) {
  for (const ConstantTensor& constant : w_.schedule().model.constants) {
    Value value = value_of(ValueKind::constant, constant.dtype, constant.elements);
    value.slot = static_cast<std::int32_t>(constants_.size());
    constants_.push_back(w_.add(at_rest(constant.name, Category::workspace), value));
  }
}

std::vector<UnitId> Compute::units_gathered_first() const {
  std::vector<UnitId> units;
  if (w_.policy().prefetch.forward == 0) return units;
  const auto steps = compute_order(w_.schedule(), true);
  // All carried copies are waited for at the border, so a deeper prefetch begins after it.
  for (const GatherInstance& instance : plan(steps, false, false, {1, w_.policy().prefetch.backward}).instances) {
    if (instance.position == 0) units.push_back(instance.unit);
  }
  return units;
}

std::string Compute::name_of_micro_step(const MicroStepKind& kind, const MicroStepKind& before) {
  std::string name = name_of(kind, w_.policy());
  if (names_.insert(name).second) return name;
  name += fmt::format(" after {}{}", before.merged_slots.size(), before.ends_block() ? " in place" : "");
  TESSERA_ASSERT(names_.insert(name).second, "two segments of one kind after one kind");
  return name;
}

SegmentId Compute::write_micro_step(const MicroStepKind& kind, const MicroStepKind& before, Gradients& gradients,
                                    Scalars& scalars) {
  begin(SegmentRole::micro_step, name_of_micro_step(kind, before));
  if (w_.policy().accumulation > 1) scalars.sum_wish();
  gradients.begin(kind, before);
  const auto steps = compute_order(w_.schedule(), true);
  const GatherPlan gathers = plan(steps, !kind.first, !kind.last, w_.policy().prefetch);
  copies_.plan(steps);
  if (kind.first) note_savings(gathers), gradients.note_savings();
  emit_gathers(gathers, 0, {});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_backward = steps[i].kind == OperationKind::backward;
    next_after_ = copies_.waits_of(static_cast<std::int64_t>(i));
    OperationId id = steps[i].is_head ? head(steps[i], kind.first, &gradients, scalars)
                     : is_backward    ? backward(steps[i], gradients)
                                      : forward(steps[i]);
    copies_.copy_after(static_cast<std::int64_t>(i), id, activations_);
    id = emit_slices(gathers, static_cast<std::int64_t>(i), id);
    // The next gather is issued before this unit's reduce-scatter, because its result is needed first.
    emit_gathers(gathers, static_cast<std::int64_t>(i) + 1, id);
    if (i == 0) gradients.reduce_deferred();
    if (!is_backward) continue;
    gradients.sum_and_measure_all_but(1);
    gradients.finish_ready(steps[i].part);
  }
  gradients.sum_and_measure_all_but(0);
  return w_.close_segment();
}

SegmentId Compute::write_evaluation(Scalars& scalars) {
  begin(SegmentRole::evaluation, "evaluation");
  write_forward([&](const ComputeStep& step) { return head(step, true, nullptr, scalars); });
  scalars.reduce();
  return w_.close_segment();
}

void Compute::write_forward(const std::function<OperationId(const ComputeStep&)>& write_head) {
  const auto steps = compute_order(w_.schedule(), false);
  const GatherPlan gathers = plan(steps, false, true, w_.policy().prefetch);
  emit_gathers(gathers, 0, {});
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const OperationId id = steps[i].is_head ? write_head(steps[i]) : forward(steps[i]);
    emit_gathers(gathers, static_cast<std::int64_t>(i) + 1, id);
  }
}

void Compute::begin(SegmentRole role, const std::string& name) {
  const StepSchedule& s = w_.schedule();
  w_.open_segment(role, name);
  model_ = &s.model_of(role);
  activations_.assign(s.model.parts.size(), {});
  saved_.assign(s.model.parts.size(), {});
  Operation op = operation_of(OperationKind::load_input, Queue::load, {});
  const Value tokens = value_of(ValueKind::tokens, DType::int32, model_->input_integers());
  tokens_ = w_.write(op, local("tokens", Category::activations), tokens);
  w_.emit(std::move(op));
}

GatherPlan Compute::plan(std::vector<ComputeStep> steps, bool after_first_micro_step, bool hands_on,
                         SchedulePolicy::Prefetch prefetch) const {
  for (ComputeStep& step : steps)
    std::erase_if(step.units, [&](UnitId unit) { return parameters_.are_there(unit, after_first_micro_step); });
  const bool stay = life_of(w_.policy()) == ParameterLife::step;  // carried copies stay there until the update
  return plan_gathers(w_.schedule(), prefetch, steps, {parameters_.carried(), hands_on && !stay});
}

void Compute::emit_gathers(const GatherPlan& plan, std::int64_t position, OperationId after) {
  for (const GatherInstance& instance : plan.instances) {
    if (instance.position != position) continue;
    std::vector<Edge> edges;
    if (after) edges.push_back({after, instance.reason});
    parameters_.gather(instance.unit, std::move(edges), instance.use);
  }
}

OperationId Compute::emit_slices(const GatherPlan& plan, std::int64_t step, OperationId after) {
  for (const GatherInstance& instance : plan.instances) {
    if (instance.is_sliced && instance.last_use == step) after = parameters_.slice(instance.unit);
  }
  return after;
}

void Compute::note_savings(const GatherPlan& plan) {
  const StepSchedule& s = w_.schedule();
  const Group sharded = rules_of(w_.policy().strategy).state;
  const auto note = [&](UnitId unit, const char* why, Group group, std::int64_t times) {
    const std::int64_t padded = s.unit(unit).padded;
    const std::int64_t bytes = w_.wire_bytes(padded, s.gathered_type(unit), group) * times;
    const std::string& name = s.unit(unit).name;
    if (bytes > 0) w_.add_saving({why, bytes, name});
    if (s.policy.offload == Offload::params && s.is_offloaded(unit) && group != Group::sub)
      w_.add_copy_saving({why, padded / s.grid.size(sharded) * size_of(s.policy.compute) * times, name});
  };
  // The gather that a micro-step leaves out is one for backward: of slices, if slices stay.
  const Group group = s.grid.size(Group::sub) > 1 ? Group::sub : sharded;
  for (const KeptUnit& kept : plan.kept)
    note(kept.unit, kept.read_once ? "read in one phase only" : "kept from forward to backward", group,
         w_.policy().accumulation);
  for (const UnitId unit : plan.kept_for_next)
    note(unit, "kept from micro-step to micro-step", sharded, w_.policy().accumulation - 1);
}

Operation Compute::compute(const ComputeStep& step, std::vector<ValueId> inputs) {
  Operation op = operation_of(step.kind, Queue::compute, {});
  op.part = step.part;
  op.after = std::exchange(next_after_, {});
  op.reads = std::move(inputs);
  for (const UnitId unit : step.units) {
    op.reads.push_back(parameters_.full(unit));
    if (const ValueId magnitudes = parameters_.magnitudes(unit)) op.reads.push_back(magnitudes);
  }
  for (const std::int32_t number : w_.schedule().part(step.part).constants)
    op.reads.push_back(w_.current(constants_[static_cast<std::size_t>(number)]));
  return op;
}

OperationId Compute::emit(Operation op, std::int64_t scratch_bytes) {
  w_.add_scratch(op, "scratch " + model_->parts[op.part].name, Category::workspace, scratch_bytes);
  return w_.emit(std::move(op));
}

bool Compute::reads_positions(const Part& part) const {
  return part.kind == PartKind::attention && (model_->generates() || model_->documents);
}

OperationId Compute::forward(const ComputeStep& step) {
  const StepSchedule& s = w_.schedule();
  const Part& part = model_->parts[step.part];
  Operation op = compute(step, {part.kind == PartKind::embedding ? tokens_ : activations_[step.part - 1]});
  if (reads_positions(part)) op.reads.push_back(tokens_);
  if (model_->generates() && part.kind == PartKind::attention) {
    const ValueId before = w_.current(cache(part, step.part));
    w_.update(op, before, w_.value(before));
  }
  const bool recomputes = step.kind == OperationKind::recompute;
  if (step.writes_output) {
    const Value output = value_of(ValueKind::activation, s.policy.compute, model_->residual_elements(), step.part);
    activations_[step.part] = w_.write(op, local("out " + part.name, Category::activations), output);
  }
  saved_[step.part].clear();
  for (const SavedTensor& saved : part.saved) {
    Value value = value_of(ValueKind::saved, saved.dtype, saved.elements, step.part);
    value.slot = static_cast<std::int32_t>(saved_[step.part].size());
    const std::string name = "saved " + part.name + " " + saved.name;
    saved_[step.part].push_back(w_.write(op, local(name, Category::activations), value));
  }
  return emit(std::move(op), recomputes ? part.recompute.scratch_bytes : part.forward.scratch_bytes);
}

OperationId Compute::head(const ComputeStep& step, bool starts_sums, Gradients* gradients, Scalars& scalars) {
  const StepSchedule& s = w_.schedule();
  const Part& part = s.part(step.part);
  Operation op = compute(step, {tokens_, activations_[step.part - 1]});
  if (gradients != nullptr) gradients->add_deferred(op.after);
  scalars.count_loss(op, starts_sums);
  if (gradients == nullptr) {
    ValueId losses;
    if (w_.policy().token_losses) {
      const Value value = value_of(ValueKind::token_losses, DType::fp32, s.model.tokens(), step.part);
      losses = w_.write(op, local("token losses", Category::activations), value);
    }
    const OperationId id = emit(std::move(op), part.forward.scratch_bytes);
    if (losses) copy_to_host(losses, losses_on_host_, "token losses");
    return id;
  }
  const Value gradient =
      value_of(ValueKind::activation_gradient, s.policy.compute, s.model.residual_gradient_elements());
  activation_gradient_ = w_.write(op, local("d out", Category::activations), gradient);
  gradients->contribute(op);
  return emit(std::move(op), part.backward.scratch_bytes);
}

OperationId Compute::backward(const ComputeStep& step, Gradients& gradients) {
  const Part& part = w_.schedule().part(step.part);
  const bool is_embedding = part.kind == PartKind::embedding;
  std::vector<ValueId> inputs{is_embedding ? tokens_ : activations_[step.part - 1]};
  if (is_embedding) inputs.push_back(activation_gradient_);
  if (reads_positions(part)) inputs.push_back(tokens_);
  inputs.insert(inputs.end(), saved_[step.part].begin(), saved_[step.part].end());
  Operation op = compute(step, std::move(inputs));
  if (!is_embedding) activation_gradient_ = w_.update(op, activation_gradient_, w_.value(activation_gradient_));
  gradients.contribute(op);
  return emit(std::move(op), part.backward.scratch_bytes);
}

}  // namespace tessera
