#include "tessera/engine/bound_schedule.hpp"

#include <algorithm>
#include <bit>

#include "tessera/engine/operation_log.hpp"
#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

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
  T* address_of(Reserved which) const {
    const StorageId storage = schedule_.reserved(which);
    return storage ? reinterpret_cast<T*>(resources_.address(storage)) : nullptr;
  }

  void find_scalars() {
    bound_.scalars = address_of<StepScalars>(Reserved::scalars);
    bound_.reduced = address_of<ReducedScalars>(Reserved::sums);
    bound_.wish = address_of<StepWish>(Reserved::wish);
    bound_.sample_losses = {address_of<double>(Reserved::sample_losses), schedule_.model.batch};
    bound_.unit_sums = address_of<ExactSum>(Reserved::unit_sums);
    TESSERA_ASSERT(bound_.scalars == nullptr || bound_.reduced != nullptr, "a schedule with scalars has sums");
  }

  void bind(const Operation& op, BoundOperation& bound) const {
    bound.name = operation_name(schedule_, op);
    switch (op.kind) {
      case OperationKind::forward:
      case OperationKind::recompute:
      case OperationKind::backward:
        return bind_part(op, bound);
      case OperationKind::update:
        return bind_update(op, bound);
      case OperationKind::direction:
        return bind_direction(op, bound);
      case OperationKind::orthogonalize:
        return bind_orthogonalize(op, bound);
      case OperationKind::magnitudes:
        return bind_magnitudes(op, bound);
      case OperationKind::load:
        return bind_load(op, bound);
      case OperationKind::gather:
        return bind_codes(op, bound);
      case OperationKind::cast:
        bind_codes(op, bound);
        bound.copies.push_back({at_bucket(op, op.reads[0]), at_bucket(op, written_values(op).at(0)), 0});
        return;
      case OperationKind::slice: {
        const std::byte* const whole = at(op.reads[0]);
        const std::int64_t bytes = schedule_.value(op.writes[0]).bytes();
        bound.copies.push_back({whole + resources_.index_in(op.group) * bytes, at(op.writes[0]), 0});
        return;
      }
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
    if (bound_.sample_losses.data != nullptr && !b.evaluation) b.sample_losses = bound_.sample_losses.last();
    b.gradient_dtype = schedule_.policy.reduce;
    bound.saved.assign(part.saved.size(), nullptr);
    bound.parameters.assign(part.tensors.size(), nullptr);
    bound.gradients.assign(part.tensors.size(), nullptr);
    bound.magnitudes.assign(part.tensors.size(), nullptr);
    bound.codes = std::make_unique<bool[]>(part.tensors.size());
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
    b.magnitudes = bound.magnitudes;
    b.codes = {bound.codes.get(), part.tensors.size()};
    b.gradient_adds = {bound.gradient_adds.get(), part.tensors.size()};
  }

  static void bind_tokens(std::int32_t* tokens, const ModelParts& model, PartBuffers& b) {
    b.tokens = tokens;
    if (!model.generates()) {
      b.targets = tokens + model.tokens();
      if (model.documents) b.positions = b.targets + model.tokens();
      b.borders = model.borders_in(tokens);
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
      if (value.kind == ValueKind::magnitudes && value.unit == unit)
        bound.magnitudes[i] = magnitude_of(tensor, reinterpret_cast<const std::int64_t*>(at(v)));
      if (!is_parameter || value.unit != unit || (backward_only && !part.read_in_backward[i])) continue;
      bound.parameters[i] = at(v) + offset * size_of(value.dtype());
      bound.codes[i] = value.dtype() == DType::e4m3;
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

  /// Returns the largest magnitude of the weight in fp8 that begins with a tensor; null if none does.
  const float* magnitude_of(TensorId tensor, const std::int64_t* magnitudes) const {
    const std::vector<Fp8Weight>& weights = schedule_.unit(schedule_.layout.unit_of[tensor]).fp8_weights;
    const auto found = std::ranges::find(weights, tensor, &Fp8Weight::tensor);
    static_assert(std::endian::native == std::endian::little);  // the lower half comes first
    return found == weights.end() ? nullptr : reinterpret_cast<const float*>(magnitudes + (found - weights.begin()));
  }

  /// Binds the search in what a rank has of a unit: all of it, or its slice.
  void bind_magnitudes(const Operation& op, BoundOperation& bound) const {
    bind_weights(op, reinterpret_cast<std::int64_t*>(at(op.writes[0])), nullptr, bound);
  }

  /// Binds what makes codes of parameters, if it does.
  void bind_codes(const Operation& op, BoundOperation& bound) const {
    if (op.reads.size() < 2) return;
    const Value& full = schedule_.value(op.writes[0]);
    const std::int64_t slice = full.elements / schedule_.grid.size(op.group);
    bind_weights(op, reinterpret_cast<std::int64_t*>(at(op.reads[1])),
                 at(op.writes[0]) + resources_.index_in(op.group) * slice, bound);
  }

  void bind_weights(const Operation& op, std::int64_t* largest, std::byte* codes, BoundOperation& bound) const {
    const Value& from = schedule_.value(op.reads[0]);
    const Unit& unit = schedule_.unit(op.unit);
    const bool is_slice = from.elements < unit.padded;
    const std::int64_t first =
        is_slice ? resources_.index_in(rules_of(schedule_.policy.strategy).state) * from.elements : 0;
    for (const Fp8Weight& weight : unit.fp8_weights) {
      const std::int64_t begin = std::max(weight.offset, first);
      const std::int64_t end = std::min(weight.offset + weight.elements, first + from.elements);
      const std::byte* const start = at(op.reads[0]) + (begin - first) * size_of(from.dtype());
      std::byte* const to = codes != nullptr ? codes + begin - first : nullptr;
      if (begin < end) bound.ranges.push_back({start, end - begin, largest, to});
      ++largest;
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

  /// Binds the update of a slice, or of a bucket of it: matrices that are updated as a whole, and the rest.
  void bind_update(const Operation& op, BoundOperation& bound) const {
    const StateSlice slice = state_slice(schedule_, resources_, op.unit);
    const Bucket range = op.bucket.count > 0 ? op.bucket : Bucket{0, slice.count};
    const std::int64_t border =
        std::clamp(schedule_.unit(op.unit).matrices_end - slice.first, range.first, range.end());
    const OptimizerRules& rules = rules_of(schedule_.policy.optimizer);
    bound.updates.reserve(2);  // arguments point to their neighbours
    if (border > range.first) add_update(op, slice, {range.first, border - range.first}, rules, bound);
    if (border < range.end()) add_update(op, slice, {border, range.end() - border}, rules_of(rules.others), bound);
  }

  /// Adds the update of the elements of `part`, all by one optimizer.
  void add_update(const Operation& op, const StateSlice& slice, const Bucket& part, const OptimizerRules& rules,
                  BoundOperation& bound) const {
    BoundOperation::Update& update = bound.updates.emplace_back();
    UpdateArguments& a = update.arguments;
    a = update_arguments(optimizer_.settings().options);
    a.rule = rules.update;
    a.elements = part.count;
    a.master = slice.master() + part.first;
    for (const StateVector& state : std::span(slice.vectors).subspan(1)) {
      if (std::ranges::find(rules.keeps, state.kind) != rules.keeps.end())
        update.states.push_back(state.at(part.first));
    }
    a.states = update.states;
    const Reserved sums = schedule_.is_offloaded(op.unit) ? Reserved::host_state_sums : Reserved::state_sums;
    if (auto* const first = address_of<StateSums>(sums)) a.sums = first[op.unit.number()].data();
    a.first = part.first;
    const std::int64_t in_bucket = part.first - op.bucket.first;
    for (const ValueId v : op.reads) {
      const Value& value = schedule_.value(v);
      if (value.kind == ValueKind::scalar) a.scalars = reinterpret_cast<const StepScalars*>(at(v));
      if (rules.wants_matrices && value.kind == ValueKind::direction)
        a.direction = reinterpret_cast<const float*>(at(v)) + part.first;
      if (value.kind != ValueKind::gradient) continue;
      a.gradient = at_bucket(op, v) + in_bucket * size_of(value.dtype());
      a.gradient_dtype = value.dtype();
    }
    for (const ValueId v : written_values(op)) {
      if (schedule_.value(v).kind != ValueKind::parameter) continue;
      a.copy_dtype = schedule_.value(v).dtype();
      const std::int64_t size = size_of(a.copy_dtype);  // a copy of a whole slice lies in a full one
      a.copy = op.bucket.count > 0 ? at_bucket(op, v) + in_bucket * size : at(v) + (slice.first + part.first) * size;
    }
    const auto add_padding = [&](std::int64_t end) {  // a copy has it, but an update leaves it alone
      const std::int64_t begin = update.runs.empty() ? 0 : update.runs.back().end;
      if (a.copy != nullptr && begin < end) update.runs.push_back({begin, end, false, true});
    };
    each_run(slice, {StateKind::parameter, part.first, part.count}, [&](const TensorRun& run) {
      const std::int64_t begin = run.offset - part.first;
      add_padding(begin);
      const ParameterTensor& tensor = schedule_.model.tensors[run.tensor];
      const float scale = rules.wants_matrices ? scale_of(tensor) : 1.0f;
      const auto number = static_cast<std::uint32_t>(run.tensor.number());
      update.runs.push_back({begin, begin + run.count, tensor.decays, false, scale, number, run.first});
    });
    add_padding(part.count);
    a.runs = update.runs;
  }

  /// Returns the factor for the rate of a tensor's matrices: one number, because they have one shape.
  float scale_of(const ParameterTensor& tensor) const {
    const std::vector<TensorMatrix> matrices = matrices_of(tensor, schedule_.model.architecture);
    const auto scale = [&](const TensorMatrix& m) { return muon_scale(m, optimizer_.settings().options.muon_scale); };
    for (const TensorMatrix& m : matrices)
      TESSERA_ASSERT(scale(m) == scale(matrices[0]), "{} has matrices of different scales", tensor.name);
    return scale(matrices[0]);
  }

  void bind_direction(const Operation& op, BoundOperation& bound) const {
    const StateSlice slice = state_slice(schedule_, resources_, op.unit);
    DirectionArguments& a = bound.direction;
    a.elements = std::clamp<std::int64_t>(schedule_.unit(op.unit).matrices_end - slice.first, 0, slice.count);
    a.state = slice.vectors[1].data, a.state_dtype = slice.vectors[1].dtype;
    a.momentum = optimizer_.settings().options.muon_momentum;
    a.output = reinterpret_cast<float*>(at(op.writes[0]));
    for (const ValueId v : op.reads) {
      if (schedule_.value(v).kind == ValueKind::scalar) a.scalars = reinterpret_cast<const StepScalars*>(at(v));
      if (schedule_.value(v).kind != ValueKind::gradient) continue;
      a.gradient = at(v), a.gradient_dtype = schedule_.value(v).dtype();
    }
  }

  /// Binds the matrices of a unit: those that this rank owns, and without addresses those of others. If the state is
  /// not shared, the rank owns all of them, in the unit's own layout.
  void bind_orthogonalize(const Operation& op, BoundOperation& bound) const {
    const bool is_shared = schedule_.value(op.reads[0]).kind == ValueKind::matrices;
    const std::int64_t me = is_shared ? resources_.index_in(rules_of(schedule_.policy.strategy).state) : 0;
    for (const OwnedTensor& owned : schedule_.owners[op.unit].tensors) {
      const std::int64_t start = is_shared ? owned.offset : schedule_.layout.offset_of[owned.tensor];
      for (const TensorMatrix& m : matrices_of(schedule_.model.tensors[owned.tensor], schedule_.model.architecture)) {
        OrthogonalizeArguments& a = bound.matrices.emplace_back();
        a.rows = m.rows, a.columns = m.columns, a.steps = optimizer_.settings().options.muon_steps;
        a.scratch = at(scratch_of(schedule_, op));
        if (owned.owner != me) continue;
        a.input = {reinterpret_cast<const float*>(at(op.reads[0])) + start + m.offset, DType::fp32, m.stride};
        a.output = {reinterpret_cast<float*>(at(op.writes[0])) + start + m.offset, DType::fp32, m.stride};
      }
    }
  }

  void bind_load(const Operation& op, BoundOperation& bound) const {
    const Value& from = schedule_.value(op.reads[0]);
    const std::int64_t bytes = from.kind == ValueKind::magnitudes ? from.bytes() : copied_bytes(schedule_, op);
    bound.copies.push_back({at_bucket(op, op.reads[0]), at_bucket(op, written_values(op).at(0)), bytes});
  }

  void bind_store(const Operation& op, BoundOperation& bound) const {
    const Value& copy = schedule_.value(op.writes[0]);
    if (copy.kind == ValueKind::snapshot) return bind_snapshot(op, bound);
    bound.copies.push_back({at_bucket(op, op.reads[0]), at(op.writes[0]), copy.bytes()});
  }

  void bind_snapshot(const Operation& op, BoundOperation& bound) const {
    const StateSlice state = state_slice(schedule_, resources_, op.unit);
    const StateSlice copy = snapshot_slice(schedule_, resources_, op.unit);
    for (std::size_t i = 0; i < copy.vectors.size(); ++i) {
      const StateVector& to = copy.vectors[i];
      bound.copies.push_back({state.vectors[i].at(copy.first + to.first), to.data, to.count * size_of(to.dtype)});
    }
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
