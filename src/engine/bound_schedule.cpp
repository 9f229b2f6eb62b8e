#include "tessera/engine/bound_schedule.hpp"

#include <algorithm>

#include "engine/addresses.hpp"
#include "engine/bound_part.hpp"
#include "engine/bound_update.hpp"
#include "tessera/engine/operation_log.hpp"
#include "tessera/engine/state.hpp"

namespace tessera {

namespace {

class Binder : Addresses {
 public:
  Binder(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer)
      : Addresses(schedule, resources), optimizer_(optimizer) {}

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
  void find_scalars() {
    bound_.scalars = address_of<StepScalars>(Reserved::scalars);
    bound_.reduced = address_of<ReducedScalars>(Reserved::sums);
    bound_.wish = address_of<StepWish>(Reserved::wish);
    TESSERA_ASSERT(bound_.scalars == nullptr || bound_.reduced != nullptr, "a schedule with scalars has sums");
  }

  void bind(SegmentRole role, const Operation& op, BoundOperation& bound) const {
    bound.name = operation_name(schedule_, op);
    switch (op.kind) {
      case OperationKind::forward:
      case OperationKind::recompute:
      case OperationKind::backward:
        bound.kernels = part_kernels(schedule_, resources_, role, op);
        return;
      case OperationKind::update:
      case OperationKind::direction:
      case OperationKind::orthogonalize:
        return bind_update(schedule_, resources_, optimizer_, op, bound);
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
      case OperationKind::exchange:
      case OperationKind::load_input:
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

  void bind_accumulate(const Operation& op, BoundOperation& bound) const {
    const bool updates = !op.updates.empty();
    const ValueId made = updates ? op.updates[0].after : op.writes[0];
    const std::int64_t elements = schedule_.value(made).elements;
    if (updates || op.reads.size() > 1)
      bound.kernels = {Add{row(updates ? made : op.reads[1]), row(op.reads[0]), row(made), elements}};
    else
      bound.kernels = {Cast{row(op.reads[0]), row(made), elements}};
  }

  void bind_norm(const Operation& op, BoundOperation& bound) const {
    ExactSum &sum = bound_.reduced->square_norm, *const kept = address_of<ExactSum>(Reserved::unit_sums);
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

  const Optimizer& optimizer_;
  BoundSchedule bound_;
};

}  // namespace

BoundSchedule bind(const StepSchedule& schedule, const Resources& resources, const Optimizer& optimizer) {
  return Binder(schedule, resources, optimizer).bind();
}

}  // namespace tessera
