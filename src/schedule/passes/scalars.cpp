#include "schedule/passes/scalars.hpp"

#include "tessera/kernels/reduced_scalars.hpp"
#include "tessera/kernels/step_scalars.hpp"

namespace tessera {

Scalars::Scalars(Writer& writer) : w_(writer) {
  sum_of_rank_.kind = ValueKind::scalar;
  sum_of_rank_.elements = kReducedIntegers;
  sum_of_rank_.placement = {{}, w_.schedule().grid.larger_than_one({Group::world}), DType::int64};
  sums_ = w_.reserve_sums(sum_of_rank_);
  // Of all these only the clip's result is a value of the schedule, and it ends with its segment.
  results_ = w_.reserve(Reserved::scalars, sizeof(StepScalars));
}

void Scalars::count_loss(Operation& head, bool starts) {
  if (starts) {
    w_.write(head, sums_, sum_of_rank_);
  } else {
    w_.update(head, w_.current(sums_), sum_of_rank_);
  }
}

void Scalars::measure(ValueId gradient) {
  Operation op = operation_of(OperationKind::norm, Queue::compute, w_.value(gradient).unit);
  op.reads.push_back(gradient);
  const ValueId before = w_.current(sums_);
  w_.update(op, before, w_.value(before));
  w_.emit(std::move(op));
}

void Scalars::sum_wish() {
  if (!wish_) wish_ = w_.reserve(Reserved::wish, sizeof(StepWish));
  Value wish = sum_of_rank_;
  wish.kind = ValueKind::wish;
  wish.elements = kWishIntegers;
  Operation op = operation_of(OperationKind::load_input, Queue::load, {});
  w_.write(op, wish_, wish);
  w_.emit(std::move(op));
  sum_over_world(wish_);
}

void Scalars::take_wish() {
  Operation op = operation_of(OperationKind::load_input, Queue::load, {});
  const ValueId before = w_.current(sums_);
  w_.update(op, before, w_.value(before));
  w_.emit(std::move(op));
}

void Scalars::reduce() { sum_over_world(sums_); }

void Scalars::sum_over_world(StorageId storage) {
  const Placement summed{{}, {}, DType::int64};
  for (const Redistribution& step : redistribute(w_.value(w_.current(storage)).placement, summed)) {
    const ValueId before = w_.current(storage);
    w_.emit_collective(before, step, Queue::reduce, w_.redistributed(before, step), storage);
  }
}

ValueId Scalars::clip() {
  Operation op = operation_of(OperationKind::clip, Queue::compute, {});
  op.reads.push_back(w_.current(sums_));
  Value coefficient;
  coefficient.kind = ValueKind::scalar;
  const ValueId clipped = w_.write(op, results_, coefficient);
  w_.emit(std::move(op));
  return clipped;
}

void Scalars::store(ValueId clipped) {
  Operation op = operation_of(OperationKind::store, Queue::store, {});
  op.reads.push_back(clipped);
  Value copy = w_.value(clipped);
  copy.elements = sizeof(StepScalars);
  if (!on_host_)
    on_host_ = w_.add(in_host_memory("scalars", local("on the host", Category::communication)), copy.bytes());
  const ValueId stored = w_.write(op, on_host_, copy);
  w_.emit(std::move(op));
  w_.carry(stored);
}

}  // namespace tessera
