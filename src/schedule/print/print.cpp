// The schedule as text: one operation per line.
#include "tessera/schedule/print.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "schedule/liveness.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"

namespace tessera {

namespace {

std::string verb_of(const StepSchedule& s, const Operation& op) {
  const bool head = op.part && s.part(op.part).kind == PartKind::head;
  const auto is_logits = [&](ValueId v) { return s.value(v).kind == ValueKind::logits; };
  if (head && std::ranges::any_of(op.writes, is_logits)) return "logits";
  if (head) return op.kind == OperationKind::backward ? "head+loss" : "loss";
  return std::string(name_of(op.kind));
}

/// Returns "wte", or "wte [0, 4194304)" where an operation works on a part of the rank's slice.
std::string unit_of(const StepSchedule& s, const Operation& op) {
  const Unit& unit = s.unit(op.unit);
  const std::int64_t slice = unit.share(s.grid.size(rules_of(s.policy.strategy).state));
  if (op.bucket.count == 0 || op.bucket.count == slice) return unit.name;
  return fmt::format("{} [{}, {})", unit.name, op.bucket.first, op.bucket.end());
}

std::string object_of(const StepSchedule& s, const Operation& op) {
  const bool copies = op.kind == OperationKind::load || op.kind == OperationKind::store;
  if (op.part) return (copies ? "out " : "") + s.part(op.part).name;
  if (op.unit) return unit_of(s, op);
  if (op.kind == OperationKind::store) {
    const ValueKind kind = s.value(op.reads.at(0)).kind;
    return kind == ValueKind::logits ? "logits" : kind == ValueKind::scalar ? "scalars" : "losses";
  }
  const ValueId touched = touched_values(op).at(0);
  if (s.value(touched).kind == ValueKind::wish || takes_input(op)) return s.storage_of(touched).name;
  return "sums";
}

/// The facts about one segment that its lines need.
class SegmentText {
 public:
  SegmentText(const StepSchedule& s, const MemoryPlan& plan, const Segment& segment,
              const std::vector<Presence>& present)
      : schedule_(s), plan_(plan), life_(s, segment, present) {}

  std::vector<std::string> line(OperationId id) const {
    const Operation& op = schedule_.operation(id);
    const bool peak = id == plan_.at(MemorySpace::device).peak_operation;
    const std::int64_t alive = life_.alive_bytes(id);
    return {fmt::format("{}", id),
            std::string(name_of(op.queue)),
            verb_of(schedule_, op),
            object_of(schedule_, op),
            waits(id),
            reads_and_writes(id),
            format_bytes(alive) + (peak ? " (peak)" : ""),
            op.wire_bytes > 0 ? format_bytes(op.wire_bytes) : ""};
  }

 private:
  /// Returns the makers of its inputs and its edges, the last of each queue, with the reason where no data requires it.
  std::string waits(OperationId id) const {
    const Operation& op = schedule_.operation(id);
    std::array<OperationId, kQueues> last;
    last.fill({});
    std::map<OperationId, std::string> reasons;
    auto need = [&](OperationId other) {
      if (!other) return;
      auto& of_queue = last[static_cast<std::size_t>(schedule_.operation(other).queue)];
      of_queue = std::max(of_queue, other);
    };
    for (const Edge& edge : op.after) need(edge.operation), reasons[edge.operation] = name_of(edge.reason);
    auto need_data = [&](OperationId other) { need(other), reasons.erase(other); };
    for (const ValueId v : op.reads) need_data(schedule_.value(v).maker);
    for (const Update& u : op.updates) need_data(schedule_.value(u.before).maker);
    std::sort(last.begin(), last.end());
    const auto text_of = [&](OperationId other) {
      const auto reason = reasons.find(other);
      return !other ? "" : fmt::format("{}{}", other, reason == reasons.end() ? "" : " (" + reason->second + ")");
    };
    return joined(last, text_of, " ");
  }

  /// Returns a name per value, the saved values of a part together.
  std::string name(ValueId v) const {
    const Value& value = schedule_.value(v);
    return value.kind == ValueKind::saved ? "saved " + schedule_.part(value.part).name : name_of_value(schedule_, v);
  }

  /// Returns "full h.0, saved h.0 (last) -> grad h.0".
  std::string reads_and_writes(OperationId id) const {
    const OperationNames names = names_of(schedule_, life_, id, [&](ValueId v) { return name(v); });
    const auto text_of = [&](const std::string& read) {
      return read + (std::ranges::count(names.releases, read) > 0 ? " (last)" : "");
    };
    return joined(names.reads, text_of) + (names.reads.empty() ? "-> " : " -> ") + joined(names.writes);
  }

  const StepSchedule& schedule_;
  const MemoryPlan& plan_;
  SegmentLife life_;
};

/// Returns how often a segment is played, in words.
std::string played(const StepSchedule& s, SegmentId id) {
  if (id == s.fresh)
    return "played instead of " + s.segments[s.step.front().segment].name + " where no updates are left";
  if (!s.finish.empty() && id == s.finish.front().segment) return "played after a step if no other step follows";
  switch (s.segments[id].role) {
    case SegmentRole::prologue:
      return "played once, before the first step";
    case SegmentRole::update:
      return "played once a step";
    case SegmentRole::evaluation:
      return "played for each evaluation batch";
    case SegmentRole::snapshot:
      return "played between two steps, for a checkpoint that is written while steps go on";
    case SegmentRole::prefill:
      return "played for each chunk of prompts";
    case SegmentRole::decode:
      return "played for each token of a text";
    case SegmentRole::micro_step:
      break;
  }
  std::vector<std::int32_t> steps;
  for (const Play& play : s.step) {
    if (play.segment == id) steps.push_back(play.micro_step);
  }
  if (s.policy.accumulation == 1) return "played once a step";
  std::string text = steps.size() == 1 ? "played once a step, for micro-step"
                                       : fmt::format("played {} times a step, for micro-steps", steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i == 8) return text + ", ...";
    text += fmt::format("{} {}", i == 0 ? "" : ",", steps[i]);
  }
  return text;
}

}  // namespace

std::string describe_replays(const StepSchedule& schedule, std::int64_t every) {
  const std::int64_t a_percent = (100 + schedule.policy.accumulation - 1) / schedule.policy.accumulation;  // steps
  return fmt::format(
      "every {}two ranks play each micro-batch of the first micro-step, which compares all ranks and units: one "
      "micro-step more, {:.3g}% of the time (1% with run.replay_every = {})",
      every == 1 ? "step " : fmt::format("{} steps ", every),
      100.0 / static_cast<double>(every * schedule.policy.accumulation), a_percent);
}

std::string describe_operation(const StepSchedule& schedule, OperationId id) {
  const Operation& op = schedule.operation(id);
  return verb_of(schedule, op) +
         (op.part && schedule.part(op.part).kind == PartKind::head ? "" : " " + object_of(schedule, op));
}

std::string describe_grid(const StepSchedule& schedule) {
  const ProcessGrid& grid = schedule.grid;
  const std::int64_t world = grid.world(), replicas = grid.size(Group::replica);
  std::string text = fmt::format("{} over {}", name_of(schedule.policy.strategy), counted(world, "rank"));
  if (const std::int64_t kept = grid.size(Group::sub); kept > 1)
    text += fmt::format(", 1/{0} of a unit stays after forward, over {0} ranks", kept);
  if (!rules_of(schedule.policy.strategy).is_hybrid()) return text;
  text += fmt::format(" ({} of shard groups of {})", counted(replicas, "replica"), grid.size(Group::shard));
  if (replicas == 1 && world > 1) text += ", as without replicas: shard.group_size makes smaller groups";
  return text;
}

std::string print_schedule(const StepSchedule& schedule, const MemoryPlan& plan) {
  std::string text = fmt::format(
      "step schedule: {}, {} operations in {} segments\n"
      "  queue: first in, first out; queues run side by side. after: the other operations that it waits for\n"
      "  (last): released after it. alive: bytes in use on the device meanwhile. sent: bytes that a rank sends\n"
      "  full: unsharded; shard: this rank's slice; grad: gradient; sums: loss, gradient norm and flags of the "
      "step\n",
      describe_grid(schedule), schedule.operations.size(), schedule.segments.size());
  if (const std::int64_t kept = schedule.grid.size(Group::sub); kept > 1)
    text +=
        fmt::format("  slice: what stays of a unit after forward, 1/{} of it, a gathered unit in the account\n", kept);
  const auto presence = presence_of(schedule);
  for (const SegmentId id : schedule.segments.ids()) {
    const Segment& segment = schedule.segments[id];
    text += fmt::format("\n{}: {}\n", segment.name, played(schedule, id));
    const SegmentText lines(schedule, plan, segment, presence[id]);
    TextTable table({">op", "queue", "does", "of", "after", "reads -> writes", ">alive", ">sent"});
    for (const OperationId op : segment.operations()) table.row(lines.line(op));
    text += table.text();
  }
  return text;
}

std::string print_units(const StepSchedule& schedule) {
  const std::int64_t members = schedule.grid.size(rules_of(schedule.policy.strategy).state);
  std::string text = fmt::format("units: {}, {} in all, {} elements with padding\n", describe_grid(schedule),
                                 schedule.layout.units.size(), format_count(schedule.layout.padded_elements()));
  TextTable table({"unit", ">tensors", ">elements", ">padding", ">share of a rank", "block"});
  for (const Unit& unit : schedule.layout.units) {
    table.row({unit.name, std::to_string(unit.tensors.size()), std::to_string(unit.elements),
               std::to_string(unit.padded - unit.elements), std::to_string(unit.share(members)),
               unit.is_block ? "yes" : ""});
  }
  return text + table.text() +
         "  unit: parameters that are gathered and released together; share of a rank: the elements that it keeps\n"
         "  block: counted by shard.limit_all_gathers and the prefetch distances; tables of the vocabulary are not\n";
}

}  // namespace tessera
