#include "tessera/schedule/schedule.hpp"

#include <algorithm>
#include <array>

namespace tessera {

std::int64_t StepSchedule::wire_bytes_per_step() const {
  std::int64_t bytes = 0;
  for (const Play& play : step) {
    const Segment& segment = segments[play.segment];
    for (const OperationId id : segment.operations()) {
      if (operation(id).kind != OperationKind::all_reduce) bytes += operation(id).wire_bytes;
    }
  }
  return bytes;
}

std::int64_t StepSchedule::copied_bytes_per_step() const {
  std::int64_t bytes = 0;
  for (const Play& play : step) {
    for (const OperationId id : segments[play.segment].operations()) bytes += copied_bytes(*this, operation(id));
  }
  return bytes;
}

namespace {

/// FNV-1a over 64-bit words: a fingerprint, not a defence.
class Hasher {
 public:
  template <class T>
  void add(T word) {
    state_ = (state_ ^ static_cast<std::uint64_t>(word)) * 0x100000001b3ULL;
    state_ ^= state_ >> 29;
  }
  template <class Item>
  void add(Id<Item> id) {
    add(id.number());
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

void add_value(Hasher& h, const Value& v) {
  h.add(v.kind), h.add(v.storage), h.add(v.unit), h.add(v.part), h.add(v.slot), h.add(v.dtype()), h.add(v.elements);
  h.add(v.placement.shard.bits), h.add(v.placement.partial.bits), h.add(v.version), h.add(v.maker);
  for (const PartId part : v.covers) h.add(part);
  if (v.first >= 0) h.add(v.first);
}

void add_operation(Hasher& h, const Operation& op) {
  h.add(op.kind), h.add(op.queue), h.add(op.group), h.add(op.unit), h.add(op.part), h.add(op.wire_bytes);
  for (const ValueId v : op.reads) h.add(v);
  h.add(-1);
  for (const ValueId v : op.writes) h.add(v);
  h.add(-2);
  for (const Update& u : op.updates) h.add(u.before), h.add(u.after);
  h.add(-3);
  for (const Edge& e : op.after) h.add(e.operation), h.add(e.reason);
  if (op.bucket.count > 0) h.add(op.bucket.first), h.add(op.bucket.count);
  for (const ExchangeRun& run : op.runs)
    h.add(run.sender), h.add(run.receiver), h.add(run.source), h.add(run.target), h.add(run.elements);
}

void add_plays(Hasher& h, const std::vector<Play>& plays) {
  h.add(plays.size());
  for (const Play& play : plays) h.add(play.segment), h.add(play.micro_step);
}

}  // namespace

std::uint64_t StepSchedule::hash() const {
  Hasher h;
  h.add(strategy), h.add(compute), h.add(reduce), h.add(accumulation), h.add(deterministic);
  h.add(grid.world()), h.add(grid.size(Group::shard)), h.add(grid.size(Group::replica)), h.add(model.batch),
      h.add(model.sequence);
  h.add(micro_batches.inner), h.add(micro_batches.reduced_each_micro_step), h.add(gather_limit);
  h.add(kernel_workspace), h.add(scalars), h.add(exchange), h.add(staging), h.add(messages), h.add(gradient_limit),
      h.add(prefetch_forward), h.add(prefetch_backward);
  if (unit_sums) h.add(unit_sums);
  if (optimizer != OptimizerName::adamw) h.add(optimizer);
  if (grid.size(Group::sub) > 1) h.add(grid.size(Group::sub));
  if (offloaded_from) h.add(offload), h.add(offloaded_from);
  if (offloaded_inputs > 0) h.add(offloaded_inputs), h.add(inputs_in_flight);
  if (generation_parts) {
    for (const ModelParts* parts : {&generation_parts->prefill, &generation_parts->decode})
      h.add(parts->batch), h.add(parts->sequence), h.add(parts->cache);
  }
  for (const Unit& unit : layout.units) {
    h.add(unit.padded);
    if (unit.stays_full) h.add(-4);
    for (const TensorPlace& place : unit.tensors) h.add(place.tensor), h.add(place.offset);
  }
  for (const ParameterTensor& tensor : model.tensors) h.add(tensor.elements);
  for (const Storage& s : storages)
    h.add(s.bytes), h.add(s.region), h.add(s.space), h.add(s.carried), h.add(s.always_live);
  for (const Value& v : values) add_value(h, v);
  for (const Operation& op : operations) add_operation(h, op);
  for (const Segment& s : segments) h.add(s.role), h.add(s.first), h.add(s.count);
  add_plays(h, prologue), add_plays(h, step), add_plays(h, evaluation), add_plays(h, snapshot);
  if (!generation.empty()) add_plays(h, generation);
  return h.value();
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
  constexpr std::array<std::string_view, 16> names{
      "load",       "store",      "gather", "slice", "forward", "recompute", "backward", "reduce-scatter",
      "all-reduce", "accumulate", "norm",   "clip",  "update",  "direction", "exchange", "orthogonalize"};
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
      if (v.first >= 0) return "bucket grad " + of;
      return (v.placement.shard.empty() ? "grad " : "shard grad ") + of;
    case ValueKind::moments:
      return host + "moments " + of;
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
