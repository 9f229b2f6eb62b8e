// Binding: from values to addresses, once, before the first step.
#include <algorithm>
#include <map>

#include "engine/bound_operation.hpp"
#include "engine/lanes.hpp"
#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

/// The values of an operation that it writes: fresh, or the new end of an update.
std::vector<ValueId> written_values(const Operation& op) {
  std::vector<ValueId> values = op.writes;
  for (const Update& u : op.updates) values.push_back(u.after);
  return values;
}

bool holds(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

}  // namespace

void Player::bind(OperationId id) {
  const Operation& op = s_.operation(id);
  Bound& bound = *bound_[static_cast<std::size_t>(id)];
  bound.waits = waits_of(s_, id);
  switch (op.kind) {
    case OperationKind::forward:
    case OperationKind::recompute:
    case OperationKind::backward:
      return bind_part(id, bound);
    case OperationKind::update:
      return bind_update(id, bound);
    case OperationKind::store:
      return bind_store(id, bound);
    case OperationKind::reduce_scatter:
    case OperationKind::all_reduce:
      if (const ValueId v = scratch_of(s_, op); v >= 0)
        bound.scratch = {at(v), static_cast<std::size_t>(s_.value(v).elements)};
      return;
    default:
      return;
  }
}

void Player::bind_part(OperationId id, Bound& bound) {
  const Operation& op = s_.operation(id);
  const Part& part = s_.part(op.part);
  PartBuffers& b = bound.buffers;
  b.scalars = scalars_;
  b.loss = &scalars_->micro_loss;
  b.gradient_dtype = s_.reduce;
  bound.saved.assign(part.saved.size(), nullptr);
  bound.parameters.assign(part.tensors.size(), nullptr);
  bound.gradients.assign(part.tensors.size(), nullptr);
  bound.constants.assign(part.constants.size(), nullptr);
  bound.gradient_adds = std::make_unique<bool[]>(part.tensors.size());

  std::vector<ValueId> touched = touched_values(op);
  for (const ValueId v : touched) {
    const Value& value = s_.value(v);
    if (value.kind == ValueKind::tokens) {
      b.tokens = reinterpret_cast<const std::int32_t*>(at(v));
      b.targets = b.tokens + s_.model.tokens();
    } else if (value.kind == ValueKind::activation) {
      const bool is_output = std::find(op.writes.begin(), op.writes.end(), v) != op.writes.end();
      (is_output ? b.output : const_cast<void*&>(b.input)) = at(v);
    } else if (value.kind == ValueKind::activation_gradient) {
      b.residual_gradient = at(v);
    } else if (value.kind == ValueKind::saved) {
      bound.saved[static_cast<std::size_t>(value.slot)] = at(v);
    } else if (value.kind == ValueKind::constant) {
      const auto place = std::find(part.constants.begin(), part.constants.end(), value.slot);
      bound.constants[static_cast<std::size_t>(place - part.constants.begin())] = at(v);
    } else if (value.kind == ValueKind::scratch) {
      b.scratch = at(v);
    }
  }
  const bool backward_only = op.kind == OperationKind::backward && part.kind != PartKind::head;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const auto tensor = static_cast<std::size_t>(part.tensors[i]);
    for (const ValueId v : op.reads) {
      const Value& value = s_.value(v);
      const bool is_parameter = value.kind == ValueKind::parameter || value.kind == ValueKind::master;
      if (!is_parameter || value.unit != s_.layout.unit_of[tensor]) continue;
      if (backward_only && !part.read_in_backward[i]) continue;
      bound.parameters[i] = at(v) + s_.layout.offset_of[tensor] * size_of(value.dtype);
    }
    for (const ValueId v : written_values(op)) {
      const Value& value = s_.value(v);
      if (value.kind == ValueKind::gradient && value.unit == s_.layout.unit_of[tensor]) {
        bound.gradients[i] = at(v) + s_.layout.offset_of[tensor] * size_of(value.dtype);
      }
    }
    for (const Update& u : op.updates) {
      const Value& before = s_.value(u.before);
      if (before.kind != ValueKind::gradient || before.unit != s_.layout.unit_of[tensor]) continue;
      for (const PartId other : before.covers) {  // another part has written this very tensor: add to it
        if (holds(s_.part(other).tensors, part.tensors[i])) bound.gradient_adds[i] = true;
      }
    }
  }
  for (const ValueId v : op.writes) {
    const Value& value = s_.value(v);
    bound.starts_account = bound.starts_account || value.kind == ValueKind::scalar;
    if (value.kind != ValueKind::gradient) continue;
    const Unit& unit = s_.unit(value.unit);
    const std::int64_t size = size_of(value.dtype);
    std::int64_t end = 0;
    auto add_gap = [&](std::int64_t to) {
      if (to > end) bound.gaps.emplace_back(at(v) + end * size, (to - end) * size);
    };
    for (const TensorPlace& place : unit.tensors) {
      add_gap(place.offset);
      end = place.offset + s_.model.tensors[static_cast<std::size_t>(place.tensor)].elements;
    }
    add_gap(unit.padded);
  }
  b.saved = bound.saved;
  b.parameters = bound.parameters;
  b.constants = bound.constants;
  b.gradients = bound.gradients;
  b.gradient_adds = {bound.gradient_adds.get(), part.tensors.size()};
}

void Player::bind_update(OperationId id, Bound& bound) {
  const Operation& op = s_.operation(id);
  const StateSlice slice = state_slice(s_, resources_, op.unit);
  AdamWArguments& a = bound.adamw;
  a.elements = slice.count;
  a.master = slice.master;
  a.first_moment = slice.first_moment;
  a.second_moment = slice.second_moment;
  for (const ValueId v : op.reads) {
    if (s_.value(v).kind != ValueKind::gradient) continue;
    a.gradient = at(v);
    a.gradient_dtype = s_.value(v).dtype;
  }
  for (const TensorRun& run : slice.runs) {
    const bool decays = s_.model.tensors[static_cast<std::size_t>(run.tensor)].decays;
    bound.runs.push_back({run.offset, run.offset + run.count, decays});
  }
  const OptimOptions& options = optimizer_.settings().options;
  a.beta1 = options.beta1;
  a.beta2 = options.beta2;
  a.epsilon = options.eps;
  a.weight_decay = options.weight_decay;
  a.runs = bound.runs;
  a.scalars = scalars_;
}

void Player::bind_store(OperationId id, Bound& bound) {
  const UnitId unit = s_.operation(id).unit;
  const StateSlice state = state_slice(s_, resources_, unit);
  const SnapshotSlice copy = snapshot_slice(s_, resources_, unit);
  bound.copies = {{{state.master + copy.first, copy.master},
                   {state.first_moment + copy.first, copy.first_moment},
                   {state.second_moment + copy.first, copy.second_moment}}};
  bound.copied_elements = copy.count;
}

void Player::bind_scalars() {
  for (const Value& value : s_.values) {
    if (value.kind != ValueKind::scalar) continue;
    std::byte* const address = resources_.address(value.storage);
    if (value.dtype == DType::int64) {
      payload_ = reinterpret_cast<ScalarPayload*>(address);
    } else {
      scalars_ = reinterpret_cast<StepScalars*>(address);
    }
  }
  TESSERA_ASSERT(payload_ != nullptr && scalars_ != nullptr, "a schedule has sums and scalars");
}

void Player::bind_names() {
  for (OperationId id = 0; id < static_cast<OperationId>(s_.operations.size()); ++id) {
    const Operation& op = s_.operation(id);
    std::string& name = bound_[static_cast<std::size_t>(id)]->name;
    name = name_of(op.kind);
    if (op.unit >= 0) name += " " + s_.unit(op.unit).name;
    if (op.unit < 0 && op.part >= 0) name += " " + s_.part(op.part).name;
  }
}

/// On a GPU the host does not see when an operation is done: a storage is poisoned on the stream of the last operation
/// that touches it, where that one is behind all others by its stream or by a wait of its own.
void Player::bind_device_poison() {
  for (const Segment& segment : s_.segments) {
    std::map<StorageId, std::vector<OperationId>> touches;
    for (OperationId id = segment.first; id < segment.first + segment.count; ++id) {
      for (const StorageId storage : bound_[static_cast<std::size_t>(id)]->touched) touches[storage].push_back(id);
    }
    for (const auto& [storage, by] : touches) {
      Bound& last = *bound_[static_cast<std::size_t>(by.back())];
      const Stream* const stream = &lanes_->of(s_.operation(by.back()).lane);
      const bool behind_all = std::all_of(by.begin(), by.end(), [&](OperationId other) {
        return &lanes_->of(s_.operation(other).lane) == stream ||
               std::find(last.waits.begin(), last.waits.end(), other) != last.waits.end();
      });
      if (behind_all) last.poisons.push_back(storage);
    }
  }
}

void Player::bind_poison() {
  for (OperationId id = 0; id < static_cast<OperationId>(s_.operations.size()); ++id) {
    for (const ValueId v : touched_values(s_.operation(id))) {
      const StorageId storage = s_.value(v).storage;
      auto& touched = bound_[static_cast<std::size_t>(id)]->touched;
      const bool stays = s_.storage(storage).carried || s_.storage(storage).always_live;
      if (stays || std::find(touched.begin(), touched.end(), storage) != touched.end()) continue;
      touched.push_back(storage);
    }
  }
}

}  // namespace tessera
