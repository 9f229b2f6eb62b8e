#include "schedule/passes/gathers.hpp"

#include <algorithm>

#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

ComputeStep make_step(const ModelParts& model, const UnitLayout& layout, OperationKind kind, PartId id,
                      bool backward_phase) {
  const Part& part = model.parts[id];
  ComputeStep step{kind, id, backward_phase, part.kind == PartKind::head, part.kind == PartKind::embedding, true, {}};
  const bool only_what_backward_reads = kind == OperationKind::backward && part.kind != PartKind::head;
  std::vector<TensorId> read;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    if (!only_what_backward_reads || part.read_in_backward[i]) read.push_back(part.tensors[i]);
  }
  step.units = layout.units_of(read);
  return step;
}

/// First and last compute step of each phase that reads a unit; -1 where none does.
struct Uses {
  std::int64_t first_forward = -1, last_forward = -1, first_backward = -1, last_backward = -1;
};

IndexedVector<UnitId, Uses> uses_of(std::size_t units, const std::vector<ComputeStep>& steps) {
  IndexedVector<UnitId, Uses> uses(units);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const UnitId unit : steps[i].units) {
      Uses& u = uses[unit];
      std::int64_t& first = steps[i].backward_phase ? u.first_backward : u.first_forward;
      std::int64_t& last = steps[i].backward_phase ? u.last_backward : u.last_forward;
      if (first < 0) first = static_cast<std::int64_t>(i);
      last = static_cast<std::int64_t>(i);
    }
  }
  return uses;
}

/// Returns whether only the head is strictly between two steps: then releasing and gathering again would only cost.
bool only_head_between(const std::vector<ComputeStep>& steps, std::int64_t from, std::int64_t to) {
  for (std::int64_t i = from + 1; i < to; ++i) {
    if (!steps[static_cast<std::size_t>(i)].is_head) return false;
  }
  return true;
}

/// Returns whether only the embedding lies between a step and a step of the next run.
bool only_embedding_between(const std::vector<ComputeStep>& steps, std::int64_t from, std::int64_t to_of_next) {
  const auto is_embedding = [](const ComputeStep& step) { return step.is_embedding; };
  return std::all_of(steps.begin() + from + 1, steps.end(), is_embedding) &&
         std::all_of(steps.begin(), steps.begin() + to_of_next, is_embedding);
}

/// Marks the copies that are there, and adds those that are handed on after all others. A copy is kept for the next run
/// where it would only cost time to release it and gather it again.
void cross_borders(const std::vector<ComputeStep>& steps, const Border& border, GatherPlan& plan,
                   std::vector<GatherInstance>& wanted) {
  const auto end = std::ssize(steps), beyond_next = 2 * end;
  std::vector<GatherInstance> next;
  for (const UnitId unit : border.carried) {
    const auto first = std::ranges::find(wanted, unit, &GatherInstance::unit);
    if (first == wanted.end()) continue;  // it stays: nothing to gather here or later
    first->is_there = true;
    if (!border.hands_on) continue;
    const auto last = std::find_if(wanted.rbegin(), wanted.rend(),
                                   [&](const GatherInstance& instance) { return instance.unit == unit; });
    if (only_embedding_between(steps, last->last_use, first->first_use)) {
      last->use = CopyUse::here_and_next;
      last->last_use = beyond_next;
      plan.kept_for_next.push_back(unit);
    } else {
      next.push_back({.unit = unit,
                      .first_use = end + first->first_use,
                      .last_use = beyond_next,
                      .counts = first->counts,
                      .use = CopyUse::next});
    }
  }
  wanted.insert(wanted.end(), next.begin(), next.end());
}

/// Returns the earliest position allowed. A gather may not be issued while as many counted units are alive: it waits
/// until enough earlier ones have been read for the last time.
std::int64_t position_under_limit(const StepSchedule& schedule, const std::vector<GatherInstance>& earlier,
                                  const GatherInstance& instance) {
  const std::int64_t limit = schedule.policy.limit_all_gathers;
  std::vector<std::int64_t> last_uses;
  for (const GatherInstance& other : earlier) {
    if (other.counts) last_uses.push_back(other.last_use);
  }
  if (static_cast<std::int64_t>(last_uses.size()) < limit) return 0;
  std::sort(last_uses.rbegin(), last_uses.rend());
  const std::int64_t position = last_uses[static_cast<std::size_t>(limit - 1)] + 1;
  if (position > instance.first_use) {
    throw refuse("shard.limit_all_gathers", limit)
        .because("unit {} is needed while {} others are", schedule.unit(instance.unit).name, limit)
        .use("at least {} with this wrap and checkpointing", limit + 1);
  }
  return position;
}

/// Returns the copies that a run of compute steps reads, by first use, and notes in `plan` those that are fewer than
/// one per phase.
std::vector<GatherInstance> wanted_copies(const StepSchedule& schedule, const std::vector<ComputeStep>& steps,
                                          GatherPlan& plan) {
  const IndexedVector<UnitId, Uses> uses = uses_of(schedule.layout.units.size(), steps);
  std::vector<GatherInstance> wanted;
  // The formula counts one gather per phase for these strategies; a gather that is left out is a saving.
  const ParameterLife life = life_of(schedule.policy);
  const bool gathered_per_phase = life == ParameterLife::phase || life == ParameterLife::micro_step;
  for (const UnitId unit : uses.ids()) {
    const Uses& u = uses[unit];
    const bool counts = schedule.unit(unit).is_block;
    const auto add = [&](std::int64_t first, std::int64_t last, bool is_sliced = false) {
      wanted.push_back({.unit = unit, .first_use = first, .last_use = last, .counts = counts, .is_sliced = is_sliced});
    };
    if (u.first_forward < 0 && u.first_backward < 0) continue;  // resident: nothing to gather
    if (u.first_forward < 0 || u.first_backward < 0) {          // -1 is less than any position
      add(std::max(u.first_forward, u.first_backward), std::max(u.last_forward, u.last_backward));
      if (gathered_per_phase) plan.kept.push_back({unit, true});
      continue;
    }
    // A table is kept from the embedding to the head, because memory peaks at the head, which needs the table there
    // anyway.
    const bool is_table = !counts;
    const bool keep =
        life != ParameterLife::phase || is_table || only_head_between(steps, u.last_forward, u.first_backward);
    if (keep) {
      add(u.first_forward, u.last_backward);
      if (gathered_per_phase) plan.kept.push_back({unit, false});
    } else {
      add(u.first_forward, u.last_forward, schedule.grid.size(Group::sub) > 1);
      add(u.first_backward, u.last_backward);
    }
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const GatherInstance& a, const GatherInstance& b) { return a.first_use < b.first_use; });
  return wanted;
}

/// Sets the position of a copy after the `earlier` ones. `depth`: counted units ahead of its use; 0: right before it.
void place(const StepSchedule& schedule, const std::vector<GatherInstance>& earlier,
           const std::vector<std::int64_t>& counted_first_uses, std::int64_t depth, GatherInstance& instance) {
  if (depth == 0) {
    instance.position = instance.first_use;
  } else {
    const auto before = std::ranges::count_if(counted_first_uses,
                                              [&](std::int64_t first_use) { return first_use < instance.first_use; });
    instance.position = before < depth ? 0 : counted_first_uses[static_cast<std::size_t>(before - depth)];
  }
  if (schedule.policy.limit_all_gathers > 0 && instance.counts) {
    const std::int64_t allowed = position_under_limit(schedule, earlier, instance);
    if (allowed > instance.position) {
      instance.position = allowed;
      instance.reason = EdgeReason::gather_limit;
    }
  }
  // A copy is not made again while the previous one is still being read.
  for (const GatherInstance& other : earlier) {
    if (other.unit == instance.unit && other.last_use + 1 > instance.position) instance.position = other.last_use + 1;
  }
  // The queue is first-in first-out.
  if (!earlier.empty() && earlier.back().position > instance.position) {
    instance.position = earlier.back().position;
    instance.reason = earlier.back().reason;
  }
}

}  // namespace

std::vector<ComputeStep> compute_order(const StepSchedule& schedule, bool training) {
  const ModelParts& model = schedule.model;
  const Recomputation& recomputation = schedule.policy.recomputation;
  std::vector<ComputeStep> steps;
  auto kind_of = [&](PartId id) { return model.parts[id].kind; };
  auto add = [&](OperationKind kind, PartId id, bool backward_phase) {
    steps.push_back(make_step(model, schedule.layout, kind, id, backward_phase));
  };
  for (const PartId id : model.parts.ids()) {
    if (kind_of(id) != PartKind::head) add(OperationKind::forward, id, false);
  }
  const PartId head = model.parts.end_id() - 1;
  TESSERA_ASSERT(kind_of(head) == PartKind::head, "the head is the last part");
  if (!training) {
    add(OperationKind::forward, head, false);
    return steps;
  }
  // An MLP's input is the attention's output. It is kept unless both halves are recomputed, and then one after the
  // other. An MLP's own output was never dropped, because it is the next block's input.
  const auto add_recomputes = [&](PartId id) {
    const bool is_mlp = kind_of(id) == PartKind::mlp, is_attention = kind_of(id) == PartKind::attention;
    if (is_mlp && recomputation.mlp && recomputation.attention) add(OperationKind::recompute, id - 1, true);
    const bool is_due = is_mlp ? recomputation.mlp : is_attention && recomputation.attention && !recomputation.mlp;
    if (!is_due || model.parts[id].chunk > 0) return;  // backward computes chunks again by itself
    add(OperationKind::recompute, id, true);
    steps.back().writes_output = false;
  };
  add(OperationKind::backward, head, true);
  const PartId first = model.first_trained();
  for (PartId id = head - 1; id && id >= first; --id) {
    if (recomputation.has_block(model.parts[id].block)) add_recomputes(id);
    add(OperationKind::backward, id, true);
  }
  return steps;
}

GatherPlan plan_gathers(const StepSchedule& schedule, SchedulePolicy::Prefetch prefetch,
                        const std::vector<ComputeStep>& steps, const Border& border) {
  GatherPlan plan;
  std::vector<GatherInstance> wanted = wanted_copies(schedule, steps, plan);
  cross_borders(steps, border, plan, wanted);

  std::vector<std::int64_t> counted_first_uses;
  for (GatherInstance& instance : wanted) {
    if (instance.is_there) {
      instance.position = -1;
    } else {
      const ComputeStep& reader = steps[static_cast<std::size_t>(instance.first_use) % steps.size()];
      const bool backward = reader.backward_phase && !reader.is_head;
      place(schedule, plan.instances, counted_first_uses, backward ? prefetch.backward : prefetch.forward, instance);
    }
    if (instance.counts) counted_first_uses.push_back(instance.first_use);
    plan.instances.push_back(instance);
  }
  return plan;
}

}  // namespace tessera
