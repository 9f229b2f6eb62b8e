#include "bench/kernel_work.hpp"

#include <algorithm>

namespace tessera {

namespace {

bool holds(const std::vector<TensorId>& tensors, TensorId tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

/// Returns the first part of the same kind: block 0's for block parts.
PartId representative(const StepSchedule& schedule, PartId part) {
  const PartKind kind = schedule.part(part).kind;
  PartId first{0};
  while (schedule.part(first).kind != kind) ++first;
  return first;
}

/// Returns for which tensors another part has begun the gradient in the value that this operation updates.
std::vector<bool> gradient_adds(const StepSchedule& schedule, const Operation& op) {
  const std::vector<TensorId>& tensors = schedule.part(op.part).tensors;
  std::vector<bool> adds(tensors.size(), false);
  for (const Update& update : op.updates) {
    const Value& before = schedule.value(update.before);
    if (before.kind != ValueKind::gradient) continue;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (schedule.layout.unit_of[tensors[i]] != before.unit) continue;
      adds[i] = std::any_of(before.covers.begin(), before.covers.end(),
                            [&](PartId other) { return holds(schedule.part(other).tensors, tensors[i]); });
    }
  }
  return adds;
}

PartWork part_work(const StepSchedule& schedule, const Operation& op) {
  PartWork work;
  work.kind = op.kind;
  work.part = representative(schedule, op.part);
  work.writes_output = writes_output(schedule, op);
  if (op.kind == OperationKind::backward) work.gradient_adds = gradient_adds(schedule, op);
  return work;
}

FlatWork gather_work(const StepSchedule& schedule, const Operation& op) {
  if (op.queue == Queue::host)  // a bucket
    return {FlatKind::cast, op.bucket.count, schedule.value(op.reads[0]).dtype(), schedule.compute};
  const Value& whole = schedule.value(op.writes[0]);
  return {FlatKind::cast, whole.elements / schedule.grid.size(op.group), schedule.value(op.reads[0]).dtype(),
          whole.dtype()};
}

FlatWork slice_work(const StepSchedule& schedule, const Operation& op) {
  const Value& kept = schedule.value(op.writes[0]);
  return {FlatKind::cast, kept.elements, kept.dtype(), kept.dtype()};
}

FlatWork accumulate_work(const StepSchedule& schedule, const Operation& op) {
  const bool in_place = !op.updates.empty();
  const Value& sum = schedule.value(in_place ? op.updates[0].after : op.writes[0]);
  const FlatKind kind = in_place || op.reads.size() == 2 ? FlatKind::add : FlatKind::cast;
  return {kind, sum.elements, schedule.value(op.reads[0]).dtype(), sum.dtype()};
}

/// Describes square_sum, an update or a direction over the gradient that the operation reads.
FlatWork gradient_work(const StepSchedule& schedule, const Operation& op, FlatKind kind) {
  const DType copy = op.writes.empty() ? DType::fp32 : schedule.value(op.writes[0]).dtype();
  for (const ValueId v : op.reads) {
    const Value& value = schedule.value(v);
    if (value.kind == ValueKind::gradient) return {kind, value.elements, value.dtype(), copy};
  }
  throw InternalError("operation {} of unit {} reads no gradient", name_of(op.kind), op.unit);
}

bool same(const PartWork& a, const PartWork& b) {
  return a.kind == b.kind && a.part == b.part && a.writes_output == b.writes_output &&
         a.gradient_adds == b.gradient_adds;
}
bool same(const FlatWork& a, const FlatWork& b) {
  return a.kind == b.kind && a.elements == b.elements && a.from == b.from && a.to == b.to && a.rows == b.rows &&
         a.columns == b.columns;
}

template <class T>
void count(std::vector<T>& all, T work) {
  auto it = std::find_if(all.begin(), all.end(), [&](const T& other) { return same(work, other); });
  if (it == all.end()) it = all.insert(it, std::move(work));
  ++it->count;
}

void count_update(const StepSchedule& schedule, const Operation& op, KernelWork& work) {
  FlatWork rest = gradient_work(schedule, op, FlatKind::update), matrices = rest;
  matrices.kind = FlatKind::update_matrices;
  matrices.elements = std::min(rest.elements, schedule.unit(op.unit).matrices_end);
  rest.elements -= matrices.elements;
  if (matrices.elements > 0) count(work.flat, matrices);
  if (rest.elements > 0) count(work.flat, rest);
}

void count_direction(const StepSchedule& schedule, const Operation& op, KernelWork& work) {
  FlatWork direction = gradient_work(schedule, op, FlatKind::direction);
  direction.elements = schedule.value(op.writes[0]).elements, direction.to = DType::fp32;
  count(work.flat, direction);
}

void count_matrices(const StepSchedule& schedule, const Operation& op, KernelWork& work) {
  for (const OwnedTensor& owned : schedule.owners[op.unit].tensors) {
    if (owned.owner != 0) continue;
    for (const TensorMatrix& m : matrices_of(schedule.model.tensors[owned.tensor], schedule.model.architecture))
      count(work.flat, {FlatKind::orthogonalize, m.rows * m.columns, DType::fp32, DType::fp32, m.rows, m.columns});
  }
}

void count_operation(const StepSchedule& schedule, const Operation& op, KernelWork& work) {
  if (op.queue == Queue::host && traits_of(schedule.model.device).has_own_memory) return;  // not a kernel of the device
  switch (op.kind) {
    case OperationKind::forward:
    case OperationKind::recompute:
    case OperationKind::backward:
      return count(work.parts, part_work(schedule, op));
    case OperationKind::gather:
      if (schedule.gathers_in_place(op)) return;
      return count(work.flat, gather_work(schedule, op));
    case OperationKind::slice:
      return count(work.flat, slice_work(schedule, op));
    case OperationKind::accumulate:
      return count(work.flat, accumulate_work(schedule, op));
    case OperationKind::norm:
      return count(work.flat, gradient_work(schedule, op, FlatKind::square_sum));
    case OperationKind::update:
      return count_update(schedule, op, work);
    case OperationKind::direction:
      return count_direction(schedule, op, work);
    case OperationKind::orthogonalize:
      return count_matrices(schedule, op, work);
    default:
      return;  // moves data or a few numbers only
  }
}

}  // namespace

KernelWork kernel_work(const StepSchedule& schedule) {
  KernelWork work;
  for (const Play& play : schedule.step) {
    const Segment& segment = schedule.segments[play.segment];
    for (const OperationId id : segment.operations()) {
      count_operation(schedule, schedule.operation(id), work);
    }
  }
  return work;
}

}  // namespace tessera
