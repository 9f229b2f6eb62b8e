// Forward, recompute and backward of the parts in the order of compute_order, with the gathers that they need between.
#include "schedule/builder.hpp"

namespace tessera {

namespace {

Storage private_storage(const std::string& name, const Value& value, Category category) {
  return {name, value.elements * size_of(value.dtype), RegionKind::private_, Place::device, category, false, false};
}

}  // namespace

SegmentId Builder::micro_step(const MicroStepKind& kind) {
  std::string name = "micro-step";
  if (policy_.accumulation > 1) {
    name += kind.first ? " first" : kind.last ? " last" : "";
    if (!kind.first && !kind.last && policy_.deterministic)
      name += fmt::format(" merging {}{}", kind.merged_slots.size(), kind.ends_block() ? " in place" : "");
  }
  open_segment(SegmentRole::micro_step, name);
  expect_contributions();
  emit_load();
  run_compute(compute_order(s_.model, s_.layout, policy_.checkpoint_blocks, true), &kind);
  flush_norms(0);
  return close_segment();
}

SegmentId Builder::evaluation() {
  open_segment(SegmentRole::evaluation, "evaluation");
  emit_load();
  run_compute(compute_order(s_.model, s_.layout, false, false), nullptr);
  emit_payload_reduction();
  return close_segment();
}

void Builder::emit_load() {
  Operation op;
  op.kind = OperationKind::load;
  op.lane = Lane::load;
  Value tokens;
  tokens.kind = ValueKind::tokens;
  tokens.dtype = DType::int32;
  tokens.elements = 2 * s_.model.tokens();  // inputs, then targets
  tokens_ = write_local(op, private_storage("tokens", tokens, Category::activations), tokens);
  emit(std::move(op));
}

/// Units that need no gather here: read from the master, whole at rest, or whole since the first micro-step.
std::vector<ComputeStep> Builder::without_resident_units(std::vector<ComputeStep> steps,
                                                         const MicroStepKind* kind) const {
  for (ComputeStep& step : steps) {
    std::erase_if(step.units, [&](UnitId unit) {
      const auto index = static_cast<std::size_t>(unit);
      const bool since_first = kind != nullptr && !kind->first && step_parameter_[index] >= 0;
      return reads_master_directly(unit) || rest_parameter_[index] >= 0 || since_first;
    });
  }
  return steps;
}

void Builder::run_compute(const std::vector<ComputeStep>& steps, const MicroStepKind* kind) {
  const GatherPlan plan = plan_gathers(s_, policy_, without_resident_units(steps, kind));
  if (kind != nullptr && kind->first) note_gather_savings(plan), note_reduction_savings();
  emit_gathers(plan, 0, -1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const OperationId id = emit_compute(steps[i], kind);
    // The next gather goes out before this unit's reduce-scatter: it is wanted first.
    emit_gathers(plan, static_cast<std::int64_t>(i) + 1, id);
    if (kind != nullptr && steps[i].kind == OperationKind::backward) {
      flush_norms(1);
      finish_ready_gradients(*kind, steps[i].part);
    }
  }
}

void Builder::emit_gathers(const GatherPlan& plan, std::int64_t position, OperationId after) {
  for (const GatherInstance& instance : plan.instances) {
    if (instance.position != position) continue;
    std::vector<Edge> edges;
    if (after >= 0) edges.push_back({after, instance.reason});
    emit_gather(instance.unit, std::move(edges));
  }
}

void Builder::note_gather_savings(const GatherPlan& plan) {
  for (const KeptUnit& kept : plan.kept) {
    const std::int64_t bytes = wire_bytes(s_.unit(kept.unit).padded, s_.compute, rules_.state) * policy_.accumulation;
    const char* why = kept.read_once ? "read in one phase only" : "kept from forward to backward";
    if (bytes > 0) s_.savings.push_back({fmt::format("{}: {}", s_.unit(kept.unit).name, why), bytes});
  }
}

/// What gradients send less (or more) than the formula of the strategy says.
void Builder::note_reduction_savings() {
  if (trivial(rules_.inner)) return;
  if (trivial(rules_.state) && policy_.reduce_each_micro_step && policy_.accumulation > 1) {
    const std::int64_t bytes =
        wire_bytes(s_.layout.padded_elements(), s_.reduce, rules_.inner) * (policy_.accumulation - 1);
    s_.savings.push_back({"gradients stay split between micro-steps", bytes});
  }
  for (UnitId unit = 0; unit < static_cast<UnitId>(s_.layout.units.size()); ++unit) {
    if (!contributes_apart(unit) || !reduces_fresh()) continue;
    const std::int64_t bytes = wire_bytes(s_.unit(unit).padded, s_.reduce, rules_.inner) * policy_.accumulation;
    s_.savings.push_back({s_.unit(unit).name + ": its two contributions are reduced apart", -bytes});
  }
}

OperationId Builder::emit_compute(const ComputeStep& step, const MicroStepKind* kind) {
  if (step.is_head) return emit_head(step, kind);
  if (step.kind != OperationKind::backward) return emit_forward(step);
  TESSERA_ASSERT(kind != nullptr, "evaluation has no backward");
  return emit_backward(step, *kind);
}

void Builder::read_parameters(Operation& op, const ComputeStep& step) {
  for (const UnitId unit : step.units) op.reads.push_back(whole_parameter(unit));
}

void Builder::read_constants(Operation& op) {
  for (const std::int32_t number : s_.part(op.part).constants)
    op.reads.push_back(current(constants_[static_cast<std::size_t>(number)]));
}

void Builder::add_part_scratch(Operation& op, std::int64_t bytes) {
  if (bytes == 0) return;
  Value scratch;
  scratch.kind = ValueKind::scratch;
  scratch.part = op.part;
  scratch.elements = bytes;
  write_local(op, private_storage("scratch " + s_.part(op.part).name, scratch, Category::workspace), scratch);
}

OperationId Builder::emit_forward(const ComputeStep& step) {
  const Part& part = s_.part(step.part);
  const auto index = static_cast<std::size_t>(step.part);
  Operation op;
  op.kind = step.kind;
  op.part = step.part;
  op.reads.push_back(part.kind == PartKind::embedding ? tokens_ : activations_[index - 1]);
  read_parameters(op, step);
  read_constants(op);
  // The output of a recomputed MLP half is the next block's input, which was never dropped.
  if (step.kind == OperationKind::forward || part.kind == PartKind::attention) {
    Value output;
    output.kind = ValueKind::activation;
    output.part = step.part;
    output.dtype = s_.compute;
    output.elements = s_.model.residual_elements();
    activations_[index] = write_local(op, private_storage("out " + part.name, output, Category::activations), output);
  }
  saved_[index].clear();
  for (std::size_t slot = 0; slot < part.saved.size(); ++slot) {
    Value value;
    value.kind = ValueKind::saved;
    value.part = step.part;
    value.slot = static_cast<std::int32_t>(slot);
    value.dtype = part.saved[slot].dtype;
    value.elements = part.saved[slot].elements;
    const std::string name = "saved " + part.name + " " + part.saved[slot].name;
    saved_[index].push_back(write_local(op, private_storage(name, value, Category::activations), value));
  }
  add_part_scratch(op,
                   step.kind == OperationKind::recompute ? part.recompute.scratch_bytes : part.forward.scratch_bytes);
  return emit(std::move(op));
}

OperationId Builder::emit_head(const ComputeStep& step, const MicroStepKind* kind) {
  const Part& part = s_.part(step.part);
  Operation op;
  op.kind = step.kind;
  op.part = step.part;
  op.reads = {tokens_, activations_[static_cast<std::size_t>(step.part) - 1]};
  read_parameters(op, step);
  read_constants(op);
  Value account = entry_.at(payload_);
  if (kind == nullptr || kind->first) {  // the account of a step starts here
    const ValueId id = add_value(account);
    op.writes.push_back(id);
  } else {
    update_in_place(op, current(payload_), account);
  }
  if (kind != nullptr) {
    Value gradient;
    gradient.kind = ValueKind::activation_gradient;
    gradient.dtype = s_.compute;
    gradient.elements = s_.model.residual_elements();
    activation_gradient_ = write_local(op, private_storage("d out", gradient, Category::activations), gradient);
    contribute(op, *kind);
  }
  add_part_scratch(op, kind != nullptr ? part.backward.scratch_bytes : part.forward.scratch_bytes);
  return emit(std::move(op));
}

OperationId Builder::emit_backward(const ComputeStep& step, const MicroStepKind& kind) {
  const Part& part = s_.part(step.part);
  const auto index = static_cast<std::size_t>(step.part);
  Operation op;
  op.kind = OperationKind::backward;
  op.part = step.part;
  if (part.kind == PartKind::embedding) {
    op.reads = {tokens_, activation_gradient_};
  } else {
    op.reads.push_back(activations_[index - 1]);
  }
  op.reads.insert(op.reads.end(), saved_[index].begin(), saved_[index].end());
  read_parameters(op, step);
  read_constants(op);
  if (part.kind != PartKind::embedding) {
    activation_gradient_ = update_in_place(op, activation_gradient_, s_.value(activation_gradient_));
  }
  contribute(op, kind);
  add_part_scratch(op, part.backward.scratch_bytes);
  return emit(std::move(op));
}

}  // namespace tessera
