#include "tessera/schedule/schedule.hpp"

#define XXH_INLINE_ALL  // the state of a hash is a member, without an allocation
#include <xxhash.h>

#include <algorithm>
#include <array>

namespace tessera {

namespace {

/// Adds up bytes_of(operation) over the plays of a step.
template <class F>
std::int64_t bytes_per_step(const StepSchedule& s, const F& bytes_of) {
  std::int64_t bytes = 0;
  for (const Play& play : s.step) {
    for (const OperationId id : s.segments[play.segment].operations()) bytes += bytes_of(s.operation(id));
  }
  return bytes;
}

/// A hash of numbers. A list is preceded by its length, so that no two schedules have the same numbers.
class Fingerprint {
 public:
  Fingerprint() { XXH3_64bits_reset(&state_); }

  template <class... T>
  void add(T... numbers) {
    const std::array<std::uint64_t, sizeof...(T)> words{word(numbers)...};
    XXH3_64bits_update(&state_, words.data(), sizeof words);
  }
  template <class List, class Add>
  void add_list(const List& list, Add add_item) {
    add(list.size());
    for (const auto& item : list) add_item(item);
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  template <class T>
  static std::uint64_t word(T number) {
    return static_cast<std::uint64_t>(number);
  }
  template <class Item>
  static std::uint64_t word(Id<Item> id) {
    return static_cast<std::uint64_t>(id.number());
  }

  XXH3_state_t state_;
};

}  // namespace

std::int64_t StepSchedule::wire_bytes_per_step() const {
  return bytes_per_step(*this,
                        [](const Operation& op) { return op.kind == OperationKind::all_reduce ? 0 : op.wire_bytes; });
}

std::int64_t StepSchedule::copied_bytes_per_step() const {
  return bytes_per_step(*this, [this](const Operation& op) { return copied_bytes(*this, op); });
}

std::uint64_t StepSchedule::hash() const {
  Fingerprint f;
  const auto add = [&f](auto number) { f.add(number); };
  const auto add_shape = [&](const ModelParts& parts) { f.add(parts.batch, parts.sequence, parts.cache); };
  const auto add_plays = [&](const std::vector<Play>& plays) {
    f.add_list(plays, [&](const Play& play) { f.add(play.segment, play.micro_step); });
  };
  f.add(policy.strategy, policy.compute, policy.reduce, policy.accumulation, policy.deterministic, policy.optimizer,
        policy.offload, policy.inputs_in_flight, policy.limit_all_gathers, policy.prefetch.forward,
        policy.prefetch.backward, policy.reduce_each_micro_step);
  f.add(offloaded_from, offloaded_inputs, gradient_limit);
  f.add(grid.world(), grid.size(Group::shard), grid.size(Group::replica), grid.size(Group::sub));
  f.add_list(reserves, add);
  add_shape(model);
  f.add(generation_parts.has_value());
  if (generation_parts) add_shape(generation_parts->prefill), add_shape(generation_parts->decode);
  f.add_list(model.tensors, [&](const ParameterTensor& tensor) { f.add(tensor.elements); });
  f.add_list(layout.units, [&](const Unit& unit) {
    f.add(unit.padded, unit.trains, unit.is_fp8());
    f.add_list(unit.tensors, [&](const TensorPlace& place) { f.add(place.tensor, place.offset); });
  });
  f.add_list(storages,
             [&](const Storage& s) { f.add(s.bytes, s.region, s.space, s.category, s.carried, s.always_live); });
  f.add_list(values, [&](const Value& v) {
    f.add(v.kind, v.storage, v.unit, v.part, v.slot, v.dtype(), v.elements, v.first, v.placement.shard.bits,
          v.placement.partial.bits, v.version, v.maker);
    f.add_list(v.covers, add);
  });
  f.add_list(operations, [&](const Operation& op) {
    f.add(op.kind, op.queue, op.group, op.unit, op.part, op.wire_bytes, op.bucket.first, op.bucket.count);
    f.add_list(op.reads, add), f.add_list(op.writes, add);
    f.add_list(op.updates, [&](const Update& u) { f.add(u.before, u.after); });
    f.add_list(op.after, [&](const Edge& e) { f.add(e.operation, e.reason); });
    f.add_list(op.runs,
               [&](const ExchangeRun& run) { f.add(run.sender, run.receiver, run.source, run.target, run.elements); });
  });
  f.add_list(segments, [&](const Segment& s) { f.add(s.role, s.first, s.count); });
  for (const auto* plays : {&prologue, &step, &finish, &evaluation, &snapshot, &generation}) add_plays(*plays);
  f.add(fresh);
  return f.value();
}

std::int64_t copied_bytes(const StepSchedule& schedule, const Operation& operation) {
  const bool copies = operation.kind == OperationKind::load || operation.kind == OperationKind::store;
  if (!copies || operation.reads.empty()) return 0;
  const Value& source = schedule.value(operation.reads[0]);
  return source.kind == ValueKind::activation ? source.bytes() : operation.bucket.count * size_of(source.dtype());
}

ValueId scratch_of(const StepSchedule& schedule, const Operation& operation) {
  const auto is_scratch = [&](ValueId v) { return schedule.value(v).kind == ValueKind::scratch; };
  const auto found = std::find_if(operation.writes.begin(), operation.writes.end(), is_scratch);
  return found == operation.writes.end() ? ValueId() : *found;
}

std::vector<ValueId> touched_values(const Operation& operation) {
  std::vector<ValueId> touched;
  auto add = [&](ValueId id) {
    if (std::find(touched.begin(), touched.end(), id) == touched.end()) touched.push_back(id);
  };
  for (const ValueId id : operation.reads) add(id);
  for (const ValueId id : operation.writes) add(id);
  for (const Update& update : operation.updates) add(update.before), add(update.after);
  return touched;
}

std::vector<ValueId> written_values(const Operation& op) {
  std::vector<ValueId> values = op.writes;
  for (const Update& u : op.updates) values.push_back(u.after);
  return values;
}

std::map<StorageId, std::vector<OperationId>> touches_of(const StepSchedule& schedule, const Segment& segment) {
  std::map<StorageId, std::vector<OperationId>> touches;
  for (const OperationId id : segment.operations()) {
    for (const ValueId value : touched_values(schedule.operation(id))) {
      auto& list = touches[schedule.value(value).storage];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return touches;
}

std::vector<OperationId> waits_of(const StepSchedule& schedule, OperationId id) {
  const Operation& op = schedule.operation(id);
  std::array<OperationId, kQueues> last;
  last.fill({});
  auto need = [&](OperationId other) {
    if (!other) return;
    const Queue queue = schedule.operation(other).queue;
    if (queue != op.queue)
      last[static_cast<std::size_t>(queue)] = std::max(last[static_cast<std::size_t>(queue)], other);
  };
  for (const ValueId v : op.reads) need(schedule.value(v).maker);
  for (const Update& update : op.updates) need(schedule.value(update.before).maker);
  for (const Edge& edge : op.after) need(edge.operation);
  std::vector<OperationId> waits;
  for (const OperationId other : last) {
    if (other) waits.push_back(other);
  }
  return waits;
}

bool writes_output(const StepSchedule& schedule, const Operation& operation) {
  return std::ranges::any_of(operation.writes,
                             [&](ValueId id) { return schedule.value(id).kind == ValueKind::activation; });
}

const PartCost& cost_of(const StepSchedule& schedule, const Operation& operation) {
  const Part& part = schedule.part(operation.part);
  if (operation.kind == OperationKind::backward) return part.backward;
  const bool saves_alone = operation.kind == OperationKind::recompute && !writes_output(schedule, operation);
  return saves_alone ? part.recompute : part.forward;
}

std::string_view name_of(OperationKind kind) {
  constexpr std::array<std::string_view, kOperationKinds> names{
      "load",      "load",      "store",          "gather",        "cast",       "slice", "forward",
      "recompute", "backward",  "reduce-scatter", "all-reduce",    "accumulate", "norm",  "clip",
      "update",    "direction", "exchange",       "orthogonalize", "magnitudes"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Queue queue) {
  constexpr std::array<std::string_view, kQueues> names{"compute", "gather", "reduce", "replica",
                                                        "load",    "store",  "host"};
  return names[static_cast<std::size_t>(queue)];
}

std::string_view name_of(Category category) {
  constexpr std::array<std::string_view, kCategories> names{
      "parameters", "gradients", "optimizer state", "gathered units", "activations", "communication", "workspace"};
  return names[static_cast<std::size_t>(category)];
}

std::string_view name_of(MemorySpace space) { return space == MemorySpace::device ? "device" : "host"; }

std::string_view name_of(EdgeReason reason) {
  constexpr std::array<std::string_view, 3> names{"prefetch", "limit", "staging"};
  return names[static_cast<std::size_t>(reason)];
}

std::string_view name_of(SegmentRole role) {
  constexpr std::array<std::string_view, 7> names{"prologue", "micro_step", "update", "evaluation",
                                                  "snapshot", "prefill",    "decode"};
  return names[static_cast<std::size_t>(role)];
}

bool takes_tokens(const StepSchedule& schedule, const Operation& op) {
  return takes_input(op) && !op.writes.empty() && schedule.value(op.writes[0]).kind == ValueKind::tokens;
}

std::string_view name_of(RegionKind region) {
  constexpr std::array<std::string_view, kRegions> names{"at rest", "shared with peers", "private"};
  return names[static_cast<std::size_t>(region)];
}

std::string name_of_value(const StepSchedule& schedule, ValueId id) {
  const Value& v = schedule.value(id);
  const bool on_host = schedule.storage(v.storage).space == MemorySpace::host;
  const std::string host = on_host ? "host " : "";
  const std::string of = v.unit ? schedule.unit(v.unit).name : v.part ? schedule.part(v.part).name : std::string();
  switch (v.kind) {
    case ValueKind::master:
      return host + (v.placement.shard.empty() || on_host ? "master " : "shard ") + of;
    case ValueKind::parameter:
      if (v.first >= 0) return "bucket " + of;
      if (!v.placement.shard.empty() && schedule.storage_of(id).bytes > v.bytes()) return "shard of full " + of;
      return host +
             (v.placement.shard.empty()           ? "full "
              : v.placement.shard.has(Group::sub) ? "slice "
                                                  : "shard ") +
             of;
    case ValueKind::gradient:
      return host + (v.placement.shard.empty() || on_host ? "grad " : "shard grad ") + of;
    case ValueKind::moments:
      return host + "moments " + of;
    case ValueKind::magnitudes:
      return host + "magnitudes " + of;
    case ValueKind::saved:
      return "saved " + of + " " + schedule.part(v.part).saved[static_cast<std::size_t>(v.slot)].name;
    case ValueKind::activation:
      return host + "out " + of;
    case ValueKind::activation_gradient:
    case ValueKind::scalar:
    case ValueKind::tokens:
    case ValueKind::snapshot:
    case ValueKind::scratch:
    case ValueKind::constant:
    case ValueKind::cache:
    case ValueKind::logits:
    case ValueKind::token_losses:
    case ValueKind::wish:
    case ValueKind::direction:
    case ValueKind::matrices:
      return schedule.storage(v.storage).name;
  }
  return "?";
}

}  // namespace tessera
