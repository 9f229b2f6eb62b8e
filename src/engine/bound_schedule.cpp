#include "tessera/engine/bound_schedule.hpp"

#include <algorithm>

#include "engine/bound_part.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

class Binder {
 public:
  Binder(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer)
      : schedule_(schedule), resources_(resources), optimizer_(optimizer) {}

  BoundSchedule bind() {
    find_scalars();
    bound_.operations.resize(schedule_.operations.size());
    for (const Segment& segment : schedule_.segments) {
      for (const OperationId id : segment.operations()) {
        bind(segment.role, schedule_.operation(id), bound_.operations[id]);
      }
    }
    return std::move(bound_);
  }

 private:
  std::byte* at(ValueId value) const { return resources_.address(schedule_.value(value).storage); }
  View row(ValueId value) const { return {at(value), schedule_.value(value).dtype()}; }

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

  void bind(SegmentRole role, const Operation& op, BoundOperation& bound) const {
    bound.name = operation_name(schedule_, op);
    switch (op.kind) {
      case OperationKind::forward:
      case OperationKind::recompute:
      case OperationKind::backward:
        bound.kernels = part_kernels({schedule_, resources_, bound_, role, op});
        return;
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
      case OperationKind::accumulate:
        return bind_accumulate(op, bound);
      case OperationKind::norm:
        return bind_norm(op, bound);
      case OperationKind::clip:
        bound.kernels = {optimizer_.clip_arguments(bound_.reduced, bound_.scalars)};
        return;
      case OperationKind::gather: {
        const std::int64_t slice = schedule_.value(op.writes[0]).elements / schedule_.grid.size(op.group);
        if (schedule_.gathers_in_place(op)) return;
        return bind_conversion(op, at(op.reads[0]), row(op.writes[0]).at(0, resources_.index_in(op.group) * slice),
                               slice, bound);
      }
      case OperationKind::cast: {
        const ValueId made = written_values(op).at(0);
        const std::int64_t elements = op.bucket.count > 0 ? op.bucket.count : schedule_.value(made).elements;
        return bind_conversion(op, at_bucket(op, op.reads[0]), at_bucket(op, made), elements, bound);
      }
      case OperationKind::slice: {
        const Value& made = schedule_.value(op.writes[0]);
        const std::byte* const from = at(op.reads[0]) + resources_.index_in(op.group) * made.bytes();
        return bind_conversion(op, from, at(op.writes[0]), made.elements, bound);
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

  /// Binds the search in what a rank has of a unit: all of it, or its slice, as parts read it.
  void bind_magnitudes(const Operation& op, BoundOperation& bound) const {
    bound.kernels = {FillZero{at(op.writes[0]), schedule_.value(op.writes[0]).bytes()}};
    bind_weights(op, reinterpret_cast<std::int64_t*>(at(op.writes[0])), nullptr, bound);
  }

  /// Binds what converts numbers of the operation's value, at `from`, to the type of what it makes, at `to`: to codes
  /// with known magnitudes.
  void bind_conversion(const Operation& op, const void* from, void* to, std::int64_t elements,
                       BoundOperation& bound) const {
    const DType from_type = schedule_.value(op.reads[0]).dtype();
    const DType type = schedule_.value(written_values(op).at(0)).dtype();
    if (type != DType::e4m3) {
      bound.kernels = {Cast{{from, from_type}, {to, type}, elements}};
    } else if (from_type == type) {  // codes move as words: slices are multiples of 64 elements
      bound.kernels = {Cast{{from, DType::fp32}, {to, DType::fp32}, elements / 4}};
    } else if (op.reads.size() > 1) {
      bind_weights(op, reinterpret_cast<std::int64_t*>(at(op.reads[1])), static_cast<std::byte*>(to), bound);
    }
  }

  /// Binds the search in a unit's weights in fp8, as far as this rank has them, or what makes `codes` of them.
  void bind_weights(const Operation& op, std::int64_t* largest, std::byte* codes, BoundOperation& bound) const {
    const Value& from = schedule_.value(op.reads[0]);
    const Unit& unit = schedule_.unit(op.unit);
    const bool is_slice = from.elements < unit.padded;
    const std::int64_t first =
        is_slice ? resources_.index_in(rules_of(schedule_.policy.strategy).state) * from.elements : 0;
    for (const Fp8Weight& weight : unit.fp8_weights) {
      const std::int64_t begin = std::max(weight.offset, first);
      const std::int64_t end = std::min(weight.offset + weight.elements, first + from.elements);
      const View x{row(op.reads[0]).at(0, begin - first), from.dtype()};
      const DType type = schedule_.policy.compute;
      if (begin < end && codes == nullptr)
        bound.kernels.emplace_back(LargestMagnitude{x, end - begin, type, largest});
      else if (begin < end)
        bound.kernels.emplace_back(ToCodes{x, end - begin, type, largest, codes + begin - first});
      ++largest;
    }
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
    if (border > range.first) add_update(op, slice, {range.first, border - range.first}, rules, bound);
    if (border < range.end()) add_update(op, slice, {border, range.end() - border}, rules_of(rules.others), bound);
  }

  /// Adds the update of the elements of `part`, all by one optimizer.
  void add_update(const Operation& op, const StateSlice& slice, const Bucket& part, const OptimizerRules& rules,
                  BoundOperation& bound) const {
    UpdateArguments a = update_arguments(optimizer_.settings().options);
    std::vector<void*>& states = bound.states.emplace_back();
    std::vector<DecayRun>& runs = bound.runs.emplace_back();
    a.rule = rules.update;
    a.elements = part.count;
    a.master = slice.master() + part.first;
    for (const StateVector& state : std::span(slice.vectors).subspan(1)) {
      if (std::ranges::find(rules.keeps, state.kind) != rules.keeps.end()) states.push_back(state.at(part.first));
    }
    a.states = states;
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
      const std::int64_t begin = runs.empty() ? 0 : runs.back().end;
      if (a.copy != nullptr && begin < end) runs.push_back({begin, end, false, true});
    };
    each_run(slice, {StateKind::parameter, part.first, part.count}, [&](const TensorRun& run) {
      const std::int64_t begin = run.offset - part.first;
      add_padding(begin);
      const ParameterTensor& tensor = schedule_.model.tensors[run.tensor];
      const float scale = rules.wants_matrices ? scale_of(tensor) : 1.0f;
      const auto number = static_cast<std::uint32_t>(run.tensor.number());
      runs.push_back({begin, begin + run.count, tensor.decays, false, scale, number, run.first});
    });
    add_padding(part.count);
    a.runs = runs;
    bound.kernels.emplace_back(a);
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
    DirectionArguments a;
    a.elements = std::clamp<std::int64_t>(schedule_.unit(op.unit).matrices_end - slice.first, 0, slice.count);
    a.state = slice.vectors[1].data, a.state_dtype = slice.vectors[1].dtype;
    a.momentum = optimizer_.settings().options.muon_momentum;
    a.output = reinterpret_cast<float*>(at(op.writes[0]));
    for (const ValueId v : op.reads) {
      if (schedule_.value(v).kind == ValueKind::scalar) a.scalars = reinterpret_cast<const StepScalars*>(at(v));
      if (schedule_.value(v).kind != ValueKind::gradient) continue;
      a.gradient = at(v), a.gradient_dtype = schedule_.value(v).dtype();
    }
    bound.kernels = {a};
  }

  /// Binds the matrices of a unit: those that this rank owns, and without addresses those of others. If the state is
  /// not shared, the rank owns all of them, in the unit's own layout.
  void bind_orthogonalize(const Operation& op, BoundOperation& bound) const {
    const bool is_shared = schedule_.value(op.reads[0]).kind == ValueKind::matrices;
    const std::int64_t me = is_shared ? resources_.index_in(rules_of(schedule_.policy.strategy).state) : 0;
    for (const OwnedTensor& owned : schedule_.owners[op.unit].tensors) {
      const std::int64_t start = is_shared ? owned.offset : schedule_.layout.offset_of[owned.tensor];
      for (const TensorMatrix& m : matrices_of(schedule_.model.tensors[owned.tensor], schedule_.model.architecture)) {
        OrthogonalizeArguments a;
        a.rows = m.rows, a.columns = m.columns, a.steps = optimizer_.settings().options.muon_steps;
        a.scratch = at(scratch_of(schedule_, op));
        if (owned.owner == me) {
          a.input = {reinterpret_cast<const float*>(at(op.reads[0])) + start + m.offset, DType::fp32, m.stride};
          a.output = {reinterpret_cast<float*>(at(op.writes[0])) + start + m.offset, DType::fp32, m.stride};
        }
        bound.kernels.emplace_back(a);
      }
    }
  }

  void bind_accumulate(const Operation& op, BoundOperation& bound) const {
    const bool updates = !op.updates.empty();
    const ValueId made = updates ? op.updates[0].after : op.writes[0];
    const std::int64_t elements = schedule_.value(made).elements;
    bound.kernels = {Cast{row(op.reads[0]), row(made), elements}};
    if (updates || op.reads.size() > 1)
      bound.kernels = {Add{row(updates ? made : op.reads[1]), row(op.reads[0]), row(made), elements}};
  }

  void bind_norm(const Operation& op, BoundOperation& bound) const {
    ExactSum &sum = bound_.reduced->square_norm, *const kept = bound_.unit_sums;
    bound.kernels = {SquareSum{row(op.reads[0]), schedule_.value(op.reads[0]).elements, &sum}};
    if (kept != nullptr) bound.copies = {{&sum, kept + op.unit.number(), sizeof sum}};
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
