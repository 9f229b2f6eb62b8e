#include "engine/bound_schedule.hpp"

#include <algorithm>

#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

/// Returns the values that an operation writes: fresh, or the new end of an update.
std::vector<ValueId> written_values(const Operation& op) {
  std::vector<ValueId> values = op.writes;
  for (const Update& u : op.updates) values.push_back(u.after);
  return values;
}

template <class T>
bool holds(const std::vector<T>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

class Binder {
 public:
  Binder(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer)
      : schedule_(schedule), resources_(resources), optimizer_(optimizer) {}

  BoundSchedule bind() {
    find_scalars();
    bound_.operations.resize(schedule_.operations.size());
    for (const Segment& segment : schedule_.segments) {
      for (const OperationId id : segment.operations()) {
        BoundOperation& bound = bound_.operations[id];
        bound.model = &schedule_.model_of(segment.role);
        bound.buffers.evaluation = segment.role == SegmentRole::evaluation || generates(segment.role);
        bind(schedule_.operation(id), bound);
      }
    }
    return std::move(bound_);
  }

 private:
  std::byte* at(ValueId value) const { return resources_.address(schedule_.value(value).storage); }

  template <class T>
  T* address_of(StorageId storage) const {
    return storage ? reinterpret_cast<T*>(resources_.address(storage)) : nullptr;
  }

  void find_scalars() {
    bound_.scalars = address_of<StepScalars>(schedule_.scalars);
    bound_.reduced = address_of<ReducedScalars>(schedule_.sums);
    bound_.wish = address_of<StepWish>(schedule_.wish);
    bound_.unit_sums = address_of<ExactSum>(schedule_.unit_sums);
    TESSERA_ASSERT(!schedule_.scalars || schedule_.sums, "a schedule with scalars has sums");
  }

  void bind(const Operation& op, BoundOperation& bound) const {
    bound.name = name_of(op.kind);
    if (op.unit) bound.name += " " + schedule_.unit(op.unit).name;
    if (!op.unit && op.part) bound.name += " " + schedule_.part(op.part).name;
    switch (op.kind) {
      case OperationKind::forward:
      case OperationKind::recompute:
      case OperationKind::backward:
        return bind_part(op, bound);
      case OperationKind::update:
        return bind_update(op, bound);
      case OperationKind::load:
        return bind_load(op, bound);
      case OperationKind::gather:
        if (op.queue == Queue::host)
          bound.copies.push_back({at_bucket(op, op.reads[0]), at_bucket(op, written_values(op).at(0))});
        return;
      case OperationKind::store:
        return bind_store(op, bound);
      case OperationKind::reduce_scatter:
      case OperationKind::all_reduce:
        if (const ValueId v = scratch_of(schedule_, op); v)
          bound.workspace = {at(v), static_cast<std::size_t>(schedule_.value(v).elements)};
        return;
      default:
        return;
    }
  }

  void bind_part(const Operation& op, BoundOperation& bound) const {
    const Part& part = bound.model->parts[op.part];
    PartBuffers& b = bound.buffers;
    b.scalars = bound_.scalars;
    if (bound_.scalars != nullptr) b.loss = &bound_.scalars->micro_loss;
    b.gradient_dtype = schedule_.reduce;
    bound.saved.assign(part.saved.size(), nullptr);
    bound.parameters.assign(part.tensors.size(), nullptr);
    bound.gradients.assign(part.tensors.size(), nullptr);
    bound.constants.assign(part.constants.size(), nullptr);
    bound.gradient_adds = std::make_unique<bool[]>(part.tensors.size());
    for (const ValueId v : touched_values(op)) bind_buffer(op, part, v, bound);
    for (std::size_t i = 0; i < part.tensors.size(); ++i) bind_tensor(op, part, i, bound);
    for (const ValueId v : op.writes) {
      bound.clears_sums = bound.clears_sums || schedule_.value(v).kind == ValueKind::scalar;
      if (schedule_.value(v).kind == ValueKind::gradient) find_gaps(v, bound);
    }
    b.saved = bound.saved;
    b.parameters = bound.parameters;
    b.constants = bound.constants;
    b.gradients = bound.gradients;
    b.gradient_adds = {bound.gradient_adds.get(), part.tensors.size()};
  }

  static void bind_tokens(std::int32_t* tokens, const ModelParts& model, PartBuffers& b) {
    b.tokens = tokens;
    if (!model.generates()) {
      b.targets = tokens + model.tokens();
      if (model.documents) b.positions = b.targets + model.tokens();
      return;
    }
    const GenerationInputs inputs(tokens, model);
    b.positions = inputs.positions, b.counts = inputs.counts, b.rows = inputs.rows;
  }

  /// Binds a value that is neither a parameter nor a gradient.
  void bind_buffer(const Operation& op, const Part& part, ValueId v, BoundOperation& bound) const {
    PartBuffers& b = bound.buffers;
    const Value& value = schedule_.value(v);
    switch (value.kind) {
      case ValueKind::tokens:
        return bind_tokens(reinterpret_cast<std::int32_t*>(at(v)), *bound.model, b);
      case ValueKind::cache:
        b.cache = at(v);
        return;
      case ValueKind::logits:
        b.logits = reinterpret_cast<float*>(at(v));
        return;
      case ValueKind::token_losses:
        b.token_losses = reinterpret_cast<float*>(at(v));
        return;
      case ValueKind::activation:
        if (holds(op.writes, v)) {
          b.output = at(v);
        } else {
          b.input = at(v);
        }
        return;
      case ValueKind::activation_gradient:
        b.residual_gradient = at(v);
        return;
      case ValueKind::saved:
        bound.saved[static_cast<std::size_t>(value.slot)] = at(v);
        return;
      case ValueKind::constant: {
        const auto found = std::find(part.constants.begin(), part.constants.end(), value.slot);
        bound.constants[static_cast<std::size_t>(found - part.constants.begin())] = at(v);
        return;
      }
      case ValueKind::scratch:
        b.scratch = at(v);
        return;
      default:
        return;
    }
  }

  /// Binds parameter and gradient of a part's tensor.
  void bind_tensor(const Operation& op, const Part& part, std::size_t i, BoundOperation& bound) const {
    const TensorId tensor = part.tensors[i];
    const UnitId unit = schedule_.layout.unit_of[tensor];
    const std::int64_t offset = schedule_.layout.offset_of[tensor];
    const bool backward_only = op.kind == OperationKind::backward && part.kind != PartKind::head;
    for (const ValueId v : op.reads) {
      const Value& value = schedule_.value(v);
      const bool is_parameter = value.kind == ValueKind::parameter || value.kind == ValueKind::master;
      if (!is_parameter || value.unit != unit || (backward_only && !part.read_in_backward[i])) continue;
      bound.parameters[i] = at(v) + offset * size_of(value.dtype());
    }
    for (const ValueId v : written_values(op)) {
      const Value& value = schedule_.value(v);
      if (value.kind == ValueKind::gradient && value.unit == unit)
        bound.gradients[i] = at(v) + offset * size_of(value.dtype());
    }
    for (const Update& u : op.updates) {
      const Value& before = schedule_.value(u.before);
      if (before.kind != ValueKind::gradient || before.unit != unit) continue;
      for (const PartId other : before.covers) {  // another part has written this very tensor: add to it
        if (holds(schedule_.part(other).tensors, part.tensors[i])) bound.gradient_adds[i] = true;
      }
    }
  }

  /// Finds the padding between a fresh gradient's tensors.
  void find_gaps(ValueId v, BoundOperation& bound) const {
    const Unit& unit = schedule_.unit(schedule_.value(v).unit);
    const std::int64_t size = size_of(schedule_.value(v).dtype());
    std::int64_t end = 0;
    const auto add_gap = [&](std::int64_t to) {
      if (to > end) bound.gaps.emplace_back(at(v) + end * size, (to - end) * size);
    };
    for (const TensorPlace& place : unit.tensors) {
      add_gap(place.offset);
      end = place.offset + schedule_.model.tensors[place.tensor].elements;
    }
    add_gap(unit.padded);
  }

  /// Returns where an operation's bucket begins in a value that it touches.
  std::byte* at_bucket(const Operation& op, ValueId value) const {
    const Value& v = schedule_.value(value);
    return at(value) + (v.first < 0 ? op.bucket.first * size_of(v.dtype()) : 0);
  }

  /// Binds the update of a slice, or of a bucket of it.
  void bind_update(const Operation& op, BoundOperation& bound) const {
    const StateSlice slice = state_slice(schedule_, resources_, op.unit);
    const Bucket range = op.bucket.count > 0 ? op.bucket : Bucket{0, slice.count};
    UpdateArguments& a = bound.update;
    a = update_arguments(optimizer_.settings().options);
    a.elements = range.count;
    a.master = slice.master() + range.first;
    for (const StateVector& state : std::span(slice.vectors).subspan(1))
      bound.states.push_back(state.data + range.first);
    a.states = bound.states;
    for (const ValueId v : op.reads) {
      if (schedule_.value(v).kind == ValueKind::scalar) a.scalars = reinterpret_cast<const StepScalars*>(at(v));
      if (schedule_.value(v).kind != ValueKind::gradient) continue;
      a.gradient = at_bucket(op, v);
      a.gradient_dtype = schedule_.value(v).dtype();
    }
    for (const ValueId v : op.writes) {
      a.copy_dtype = schedule_.value(v).dtype();
      a.copy = at(v) + slice.first * size_of(a.copy_dtype);
    }
    const auto add_padding = [&](std::int64_t end) {  // a copy has it, and an update leaves it alone
      const std::int64_t begin = bound.runs.empty() ? 0 : bound.runs.back().end;
      if (a.copy != nullptr && begin < end) bound.runs.push_back({begin, end, false, true});
    };
    for (const TensorRun& run : slice.runs) {
      const bool decays = schedule_.model.tensors[run.tensor].decays;
      const std::int64_t begin = std::max(run.offset, range.first) - range.first;
      const std::int64_t end = std::min(run.offset + run.count, range.end()) - range.first;
      if (begin >= end) continue;
      add_padding(begin);
      bound.runs.push_back({begin, end, decays});
    }
    add_padding(range.count);
    a.runs = bound.runs;
  }

  void bind_load(const Operation& op, BoundOperation& bound) const {
    if (takes_input(op)) return;
    bound.copies.push_back({at_bucket(op, op.reads[0]), at_bucket(op, written_values(op).at(0))});
    bound.copied_bytes = copied_bytes(schedule_, op);
  }

  void bind_store(const Operation& op, BoundOperation& bound) const {
    const Value& copy = schedule_.value(op.writes[0]);
    if (copy.kind == ValueKind::snapshot) return bind_snapshot(op, bound);
    bound.copies.push_back({at_bucket(op, op.reads[0]), at(op.writes[0])});
    bound.copied_bytes = copy.bytes();
  }

  void bind_snapshot(const Operation& op, BoundOperation& bound) const {
    const StateSlice state = state_slice(schedule_, resources_, op.unit);
    const StateSlice copy = snapshot_slice(schedule_, resources_, op.unit);
    for (std::size_t i = 0; i < copy.vectors.size(); ++i)
      bound.copies.push_back({state.vectors[i].data + copy.first, copy.vectors[i].data});
    bound.copied_bytes = copy.count * size_of(DType::fp32);
  }

  const StepSchedule& schedule_;
  const Resources& resources_;
  const Optimizer& optimizer_;
  BoundSchedule bound_;
};

}  // namespace

BoundSchedule bind(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer) {
  return Binder(schedule, resources, optimizer).bind();
}

}  // namespace tessera
