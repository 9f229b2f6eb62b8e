// Building blocks: storages, values, operations, segments. The rules are in build_parameters, build_micro_step and
// build_gradients.
#include "schedule/builder.hpp"

#include <algorithm>

#include "tessera/kernels/host_exchange.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/kernels/scalar_payload.hpp"
#include "tessera/kernels/step_scalars.hpp"
#include "tessera/schedule/collective_sizes.hpp"

namespace tessera {

Builder::Builder(StepSchedule& schedule, const SchedulePolicy& policy)
    : s_(schedule), policy_(policy), rules_(rules_of(policy)) {
  const bool reduces_each = policy.reduce_each_micro_step;
  s_.deal = {rules_.inner, reduces_each};
  s_.gather_limit = rules_.gathers_are_limited ? policy.limit_all_gathers : 0;
  s_.gradient_limit = reduces_fresh() ? kGradientStaging : 0;
  s_.prefetch_forward = policy.prefetch_forward;
  s_.prefetch_backward = policy.prefetch_backward;
  const std::int64_t members = s_.grid.size(rules_.state_split);
  for (UnitId unit = 0; unit < static_cast<UnitId>(s_.layout.units.size()); ++unit) {
    const std::int64_t share = s_.unit(unit).share(members);
    const std::string& name = s_.unit(unit).name;
    const bool copy_at_rest = rules_.life == ParameterLife::rest && !reads_master_directly(unit);
    master_.push_back(add_storage(
        {"master " + name, share * 4, RegionKind::at_rest, Place::device, Category::parameters, true, true}));
    moments_.push_back(add_storage(
        {"moments " + name, share * 8, RegionKind::at_rest, Place::device, Category::optimizer_state, true, true}));
    Value master;
    master.kind = ValueKind::master;
    master.unit = unit;
    master.dtype = DType::fp32;
    master.elements = share;
    master.split = groups({rules_.state_split});
    set_entry(master_.back(), master);
    Value moments = master;
    moments.kind = ValueKind::moments;
    moments.elements = 2 * share;
    set_entry(moments_.back(), moments);

    const bool lives_a_step = rules_.life == ParameterLife::step && !reads_master_directly(unit);
    rest_parameter_.push_back(-1);
    step_parameter_.push_back(-1);
    Value whole;
    whole.kind = ValueKind::parameter;
    whole.unit = unit;
    whole.dtype = policy.compute;
    whole.elements = s_.unit(unit).padded;
    const std::int64_t bytes = whole.elements * size_of(policy.compute);
    if (copy_at_rest) {
      rest_parameter_.back() =
          add_storage({"whole " + name, bytes, RegionKind::shared, Place::device, Category::parameters, true, true});
      set_entry(rest_parameter_.back(), whole);
    } else if (lives_a_step && policy.accumulation > 1) {
      step_parameter_.back() = add_storage(
          {"whole " + name, bytes, RegionKind::shared, Place::device, Category::gathered_units, true, false});
      set_entry(step_parameter_.back(), whole);
    }
  }
  for (const ConstantTensor& constant : s_.model.constants) {
    Value value;
    value.kind = ValueKind::constant;
    value.slot = static_cast<std::int32_t>(constants_.size());
    value.dtype = constant.dtype;
    value.elements = constant.elements;
    constants_.push_back(add_storage({constant.name, constant.elements * size_of(constant.dtype), RegionKind::at_rest,
                                      Place::device, Category::workspace, true, true}));
    set_entry(constants_.back(), value);
  }
  payload_ = add_storage({"payload", static_cast<std::int64_t>(sizeof(ScalarPayload)), RegionKind::private_,
                          Place::device, Category::communication, true, false});
  Value payload;
  payload.kind = ValueKind::scalar;
  payload.dtype = DType::int64;
  payload.elements = kPayloadIntegers;
  payload.owed = groups({Group::world});
  set_entry(payload_, payload);
  // All scalars of the step; of these only the clip's result is a value of the schedule, and it ends with its segment.
  scalars_ = add_storage({"scalars", static_cast<std::int64_t>(sizeof(StepScalars)), RegionKind::at_rest, Place::device,
                          Category::communication, false, true});
  if (const std::int64_t bytes = kernel_needs(s_.model.device).workspace(); bytes > 0) {
    s_.kernel_workspace = add_storage(
        {"workspace of kernels", bytes, RegionKind::at_rest, Place::device, Category::workspace, false, true});
  }
}

StorageId Builder::add_storage(Storage storage) {
  s_.storages.push_back(std::move(storage));
  return static_cast<StorageId>(s_.storages.size()) - 1;
}

ValueId Builder::add_value(Value value) {
  TESSERA_ASSERT(value.storage >= 0, "a value lies in a storage");
  const auto id = static_cast<ValueId>(s_.values.size());
  current_[value.storage] = id;
  s_.values.push_back(std::move(value));
  return id;
}

void Builder::set_entry(StorageId storage, const Value& value) {
  entry_[storage] = value;
  entry_[storage].storage = storage;
  entry_[storage].maker = -1;
}

ValueId Builder::current(StorageId storage) {
  if (const auto it = current_.find(storage); it != current_.end()) return it->second;
  const auto entry = entry_.find(storage);
  TESSERA_ASSERT(entry != entry_.end(), "storage {} is read before anything wrote it", s_.storage(storage).name);
  const ValueId id = add_value(entry->second);
  open_->carried_in.push_back(id);
  return id;
}

OperationId Builder::emit(Operation operation) {
  TESSERA_ASSERT(open_.has_value(), "operations belong to a segment");
  const auto id = static_cast<OperationId>(s_.operations.size());
  for (const ValueId v : operation.writes) s_.values[static_cast<std::size_t>(v)].maker = id;
  for (const Update& u : operation.updates) s_.values[static_cast<std::size_t>(u.after)].maker = id;
  s_.operations.push_back(std::move(operation));
  return id;
}

void Builder::open_segment(SegmentRole role, const std::string& name) {
  TESSERA_ASSERT(!open_.has_value(), "segments do not nest");
  open_ = Segment{role, name, static_cast<OperationId>(s_.operations.size()), 0, {}, {}};
  current_.clear();
  whole_.clear();
  activations_.assign(s_.model.parts.size(), -1);
  saved_.assign(s_.model.parts.size(), {});
  owed_parts_.clear();
  gradient_.clear();
  partial_.clear();
  staged_.clear();
  pending_norms_.clear();
  tokens_ = activation_gradient_ = -1;
}

SegmentId Builder::close_segment() {
  open_->count = static_cast<OperationId>(s_.operations.size()) - open_->first;
  s_.segments.push_back(*open_);
  open_.reset();
  return static_cast<SegmentId>(s_.segments.size()) - 1;
}

Groups Builder::groups(std::initializer_list<Group> list) const {
  Groups set;
  for (const Group group : list) {
    if (group != Group::self && !trivial(group)) set = set.with(group);
  }
  return set;
}

std::int64_t Builder::wire_bytes(std::int64_t elements, DType dtype, Group group) const {
  const std::int64_t n = s_.grid.size(group);
  return elements / n * (n - 1) * size_of(dtype);
}

CollectiveWay Builder::way_over(Group group) const {
  switch (policy_.transfer) {
    case Transfer::nccl:
      return s_.deterministic ? CollectiveWay::nccl_tree : CollectiveWay::nccl_sum;
    case Transfer::staged:
      return CollectiveWay::staged;
    case Transfer::host:
      break;
  }
  return s_.grid.within_node(group) ? CollectiveWay::shared_memory : CollectiveWay::messages;
}

void Builder::add_collective_scratch(Operation& op, std::int64_t bytes) {
  if (bytes == 0) return;
  Value scratch;
  scratch.kind = ValueKind::scratch;
  scratch.unit = op.unit;
  scratch.elements = bytes;
  const std::string of = op.unit >= 0 ? s_.unit(op.unit).name : "payload";
  write_local(op, {"received " + of, bytes, RegionKind::private_, Place::device, Category::communication, false, false},
              scratch);
}

void Builder::add_host_memory() {
  if (s_.model.device == DeviceKind::cpu) return;
  const auto on_host = [&](const char* name, std::int64_t bytes, RegionKind region) {
    return add_storage({name, bytes, region, Place::host, Category::communication, false, true});
  };
  s_.exchange = on_host("exchange with the device", exchange_bytes(s_.model.tokens()), RegionKind::at_rest);
  const LargestBuffers largest = largest_buffers(s_);
  if (policy_.transfer != Transfer::staged || largest.whole == 0) return;
  s_.staging = on_host("staging of collectives", staged_bytes(largest.whole, largest.result), RegionKind::shared);
  std::int64_t messages = 0;  // all pass one by one
  for (const Operation& op : s_.operations) {
    if (!s_.communicates(op) || s_.grid.within_node(op.group)) continue;
    const std::int64_t ranks = s_.grid.size(op.group);
    messages = std::max(messages, ranks * message_block_bytes(ranks));
  }
  if (messages > 0) s_.messages = on_host("messages between nodes", messages, RegionKind::at_rest);
}

ValueId Builder::write_local(Operation& op, const Storage& storage, Value value) {
  value.storage = add_storage(storage);
  const ValueId id = add_value(std::move(value));
  op.writes.push_back(id);
  return id;
}

ValueId Builder::update_in_place(Operation& op, ValueId before, Value after) {
  after.storage = s_.value(before).storage;
  const ValueId id = add_value(std::move(after));
  op.updates.push_back({before, id});
  return id;
}

}  // namespace tessera
