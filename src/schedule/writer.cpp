#include "schedule/writer.hpp"

#include <algorithm>

#include "tessera/kernels/needs.hpp"
#include "tessera/schedule/collective_sizes.hpp"

namespace tessera {

namespace {

struct ReservedMemory {
  const char* name;
  Category category = Category::communication;
  std::string_view use = {};  ///< of memory on the host
  RegionKind region = RegionKind::at_rest;
};

/// In the order of Reserved.
constexpr std::array<ReservedMemory, kReserved> kReservedMemory{{
    {"sums"},
    {"wish"},
    {"workspace of kernels", Category::workspace},
    {"scalars"},
    {"norms of units"},
    {"losses of samples"},
    {"checksums of state", Category::optimizer_state},
    {"checksums of offloaded state", Category::optimizer_state, "checksums"},
    {"checksums of a micro-step", Category::workspace},
    {"exchange with the device", Category::communication, "exchange"},
    {"staging of collectives", Category::communication, "staging", RegionKind::shared},
    {"messages between nodes", Category::communication, "messages"},
}};

}  // namespace

Storage at_rest(std::string name, Category category, RegionKind region) {
  return {.name = std::move(name), .region = region, .category = category, .carried = true, .always_live = true};
}

Storage carried(std::string name, Category category, RegionKind region) {
  return {.name = std::move(name), .region = region, .category = category, .carried = true};
}

Storage local(std::string name, Category category, RegionKind region) {
  return {.name = std::move(name), .region = region, .category = category};
}

Storage in_host_memory(const std::string& use, Storage storage) {
  storage.space = MemorySpace::host;
  storage.name = use + " " + storage.name, storage.use = use;
  return storage;
}

Value value_of(ValueKind kind, DType dtype, std::int64_t elements, PartId part) {
  Value value;
  value.kind = kind;
  value.placement.dtype = dtype;
  value.elements = elements;
  value.part = part;
  return value;
}

Value value_of(ValueKind kind, const Placement& placement, std::int64_t elements, UnitId unit) {
  Value value;
  value.kind = kind;
  value.placement = placement;
  value.elements = elements;
  value.unit = unit;
  return value;
}

Operation operation_of(OperationKind kind, Queue queue, UnitId unit) {
  Operation op;
  op.kind = kind;
  op.queue = queue;
  op.unit = unit;
  return op;
}

StorageId Writer::add(Storage storage) { return schedule_.storages.add(std::move(storage)); }

StorageId Writer::add(Storage storage, std::int64_t bytes) {
  storage.bytes = bytes;
  return add(std::move(storage));
}

StorageId Writer::add(Storage storage, const Value& entry) {
  const StorageId id = add(std::move(storage), entry.bytes());
  entry_[id] = entry;
  entry_[id].storage = id;
  entry_[id].maker = {};
  return id;
}

void Writer::enlarge(StorageId storage, std::int64_t bytes) {
  schedule_.storages[storage].bytes = std::max(schedule_.storages[storage].bytes, bytes);
}

StorageId Writer::carry(ValueId value) {
  const StorageId storage = schedule_.value(value).storage;
  schedule_.storages[storage].carried = true;
  entry_[storage] = schedule_.value(value);
  entry_[storage].maker = {};
  return storage;
}

void Writer::open_segment(SegmentRole role, const std::string& name) {
  TESSERA_ASSERT(!open_.has_value(), "segments do not nest");
  open_ = Segment{role, name, schedule_.operations.end_id(), 0, {}, {}};
  current_.clear();
}

SegmentId Writer::close_segment() {
  open_->count = schedule_.operations.end_id() - open_->first;
  const SegmentId id = schedule_.segments.add(*std::move(open_));
  open_.reset();
  return id;
}

ValueId Writer::add_value(StorageId storage, Value value) {
  value.storage = storage;
  return current_[storage] = schedule_.values.add(std::move(value));
}

ValueId Writer::current(StorageId storage) {
  if (const auto it = current_.find(storage); it != current_.end()) return it->second;
  const auto entry = entry_.find(storage);
  TESSERA_ASSERT(entry != entry_.end(), "storage {} is read before anything wrote it", schedule_.storage(storage).name);
  const ValueId id = add_value(storage, entry->second);
  open_->carried_in.push_back(id);
  return id;
}

ValueId Writer::write(Operation& op, StorageId storage, Value value) {
  op.writes.push_back(add_value(storage, std::move(value)));
  return op.writes.back();
}

ValueId Writer::write(Operation& op, Storage storage, Value value) {
  const StorageId id = add(std::move(storage), value.bytes());
  return write(op, id, std::move(value));
}

ValueId Writer::update(Operation& op, ValueId before, Value after) {
  const ValueId id = add_value(schedule_.value(before).storage, std::move(after));
  op.updates.push_back({before, id});
  return id;
}

void Writer::add_scratch(Operation& op, const std::string& name, Category category, std::int64_t bytes) {
  if (bytes == 0) return;
  Value scratch;
  scratch.unit = op.unit;
  scratch.part = op.part;
  scratch.elements = bytes;
  write(op, local(name, category), scratch);
}

OperationId Writer::emit(Operation operation) {
  TESSERA_ASSERT(open_.has_value(), "operations belong to a segment");
  const auto id = schedule_.operations.end_id();
  for (const ValueId v : operation.writes) schedule_.values[v].maker = id;
  for (const Update& u : operation.updates) schedule_.values[u.after].maker = id;
  schedule_.operations.push_back(std::move(operation));
  return id;
}

void Writer::emit_copy(OperationId original, std::map<OperationId, OperationId>& copies) {
  const Operation from = schedule_.operation(original);
  Operation op = from;
  op.reads.clear(), op.writes.clear(), op.updates.clear();
  const auto here = [&](ValueId v) { return current(value(v).storage); };
  for (const ValueId v : from.reads) op.reads.push_back(here(v));
  for (const Update& u : from.updates) update(op, here(u.before), value(u.after));
  for (const ValueId v : from.writes) write(op, value(v).storage, value(v));
  for (Edge& edge : op.after) edge.operation = copies.at(edge.operation);
  copies[original] = emit(std::move(op));
}

Value Writer::redistributed(ValueId source, const Redistribution& step) const {
  Value result = schedule_.value(source);
  const std::int64_t ranks = schedule_.grid.size(step.group);
  if (step.kind == OperationKind::reduce_scatter || step.kind == OperationKind::slice) result.elements /= ranks;
  if (step.kind == OperationKind::gather) result.elements *= ranks;
  result.placement = step.result;
  return result;
}

ValueId Writer::emit_collective(ValueId source, const Redistribution& step, Queue queue, Value result, StorageId into,
                                std::vector<Edge> after, ValueId with) {
  const Value from = schedule_.value(source);
  const std::int64_t ranks = schedule_.grid.size(step.group);
  const bool reduces_all = step.kind == OperationKind::all_reduce;
  Operation op = operation_of(step.kind, queue, from.unit);
  op.group = step.group;
  op.after = std::move(after);
  std::int64_t scratch = 0;
  if (reduces_all) {
    op.wire_bytes = 2 * result.bytes() * (ranks - 1) / ranks;  // as a ring would send
    scratch = all_reduce_scratch_bytes(algorithm_over(op.group), ranks, result.elements);
  } else {
    const Value& larger = step.kind == OperationKind::gather ? result : from;
    op.reads.push_back(source);
    if (with) op.reads.push_back(with);
    op.wire_bytes = wire_bytes(larger.elements, larger.dtype(), op.group);
    if (step.kind == OperationKind::reduce_scatter)
      scratch = reduce_scratch_bytes(algorithm_over(op.group), ranks, result.elements, from.dtype(), result.dtype());
  }
  const ValueId made = reduces_all ? update(op, source, std::move(result)) : write(op, into, std::move(result));
  const std::string of = op.unit ? schedule_.unit(op.unit).name : "sums";
  add_scratch(op, "received " + of, Category::communication, scratch);
  emit(std::move(op));
  return made;
}

std::int64_t Writer::wire_bytes(std::int64_t elements, DType dtype, Group group) const {
  const std::int64_t n = schedule_.grid.size(group);
  return elements / n * (n - 1) * size_of(dtype);
}

CollectiveAlgorithm Writer::algorithm_over(Group group) const {
  switch (policy().transfer) {
    case Transfer::nccl:
      return schedule_.policy.deterministic ? CollectiveAlgorithm::nccl_tree : CollectiveAlgorithm::nccl_sum;
    case Transfer::staged:
      return CollectiveAlgorithm::staged;
    case Transfer::host:
      break;
  }
  return schedule_.grid.within_node(group) ? CollectiveAlgorithm::shared_memory : CollectiveAlgorithm::messages;
}

StorageId Writer::reserve(Reserved which, std::int64_t bytes) {
  if (bytes == 0) return {};
  const ReservedMemory& row = kReservedMemory[static_cast<std::size_t>(which)];
  return schedule_.reserved(which) = add({.name = row.name,
                                          .bytes = bytes,
                                          .region = row.region,
                                          .space = row.use.empty() ? MemorySpace::device : MemorySpace::host,
                                          .category = row.category,
                                          .always_live = true,
                                          .use = std::string(row.use)});
}

StorageId Writer::reserve_sums(const Value& entry) {
  return schedule_.reserved(Reserved::sums) = add(carried("sums", Category::communication), entry);
}

void Writer::add_host_memory() {
  const std::int64_t exchange = kernel_needs(schedule_.model.device).exchange(schedule_.most_input_integers());
  if (exchange == 0) return;
  reserve(Reserved::exchange, exchange);
  const LargestBuffers largest = largest_buffers(schedule_);
  if (policy().transfer != Transfer::staged || largest.full == 0) return;
  reserve(Reserved::staging, staged_bytes(largest.full, largest.result));
  std::int64_t messages = 0;  // all pass through one by one
  for (const Operation& op : schedule_.operations) {
    if (!schedule_.communicates(op) || schedule_.grid.within_node(op.group)) continue;
    const std::int64_t ranks = schedule_.grid.size(op.group);
    messages = std::max(messages, ranks * message_block_bytes(ranks));
  }
  reserve(Reserved::messages, messages);
}

}  // namespace tessera
