#include "tessera/engine/operation_runner.hpp"

#include <chrono>
#include <thread>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/threads.hpp"

namespace tessera {

void OperationRunner::delay(OperationId id) const {
  if (resources_.settings.queue_mode != QueueMode::chaos) return;
  const auto bits = philox(chaos_seed_, RandomUse::chaos, static_cast<std::uint32_t>(resources_.context.rank()),
                           static_cast<std::uint64_t>(plays_) << 32 | static_cast<std::uint32_t>(id.number()));
  if (bits[0] % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(bits[1] % 300));
}

void OperationRunner::run(OperationId id, Stream& stream) {
  const Operation& op = schedule_.operation(id);
  const BoundOperation& bound = bound_[id];
  resources_.device->begin_range(bound.name.c_str());
  dispatch(op, bound, stream);
  resources_.device->end_range();
}

void OperationRunner::dispatch(const Operation& op, const BoundOperation& bound, Stream& stream) {
  const RankCompute& compute = *resources_.compute;
  switch (op.kind) {
    case OperationKind::gather:
      return gather(op, bound, stream);
    case OperationKind::cast:
    case OperationKind::slice:
      return cast(op, bound, stream);
    case OperationKind::forward:
    case OperationKind::recompute:
    case OperationKind::backward:
      return run_part(op, bound, stream);
    case OperationKind::reduce_scatter: {
      const Value& source = schedule_.value(op.reads[0]);
      const Value& sum = schedule_.value(op.writes[0]);
      return summing_communicator(op, bound).reduce_scatter(stream, at(op.reads[0]), source.dtype(), at(op.writes[0]),
                                                            sum.dtype(), sum.elements);
    }
    case OperationKind::all_reduce: {
      const ValueId sums = op.updates[0].after;
      const Value& value = schedule_.value(sums);
      return summing_communicator(op, bound).all_reduce(
          stream, reinterpret_cast<std::int64_t*>(at(sums)), value.elements,
          value.kind == ValueKind::magnitudes ? Reduction::max : Reduction::sum);
    }
    case OperationKind::accumulate:
      return accumulate(op, stream);
    case OperationKind::norm: {
      const std::int64_t elements = schedule_.value(op.reads[0]).elements;
      ExactSum* const sum = &bound_.reduced->square_norm;
      compute.kernels(op.queue).run(stream, SquareSum{row(op.reads[0]), elements, sum});
      if (bound_.unit_sums != nullptr)
        compute.copy(op.queue, stream, bound_.unit_sums + op.unit.number(), sum, sizeof *sum);
      return;
    }
    case OperationKind::clip:
      return compute.kernels(op.queue).run(stream, optimizer_.clip_arguments(bound_.reduced, bound_.scalars));
    case OperationKind::update:
      for (const BoundOperation::Update& one : bound.updates) compute.kernels(op.queue).run(stream, one.arguments);
      return;
    case OperationKind::direction:
      return compute.kernels(op.queue).run(stream, bound.direction);
    case OperationKind::orthogonalize:
      for (const OrthogonalizeArguments& matrix : bound.matrices) compute.kernels(op.queue).run(stream, matrix);
      return;
    case OperationKind::exchange:
      return resources_.communicators->of(op.queue, op.group)
          .exchange(stream, at(op.reads[0]), at(op.writes[0]), op.runs, schedule_.value(op.reads[0]).dtype());
    case OperationKind::magnitudes:
      return find_magnitudes(op, bound, stream);
    case OperationKind::load:
    case OperationKind::store:
      return copy(op, bound, stream);
    case OperationKind::load_input:  // the player's
      break;
  }
  throw InternalError("operation {} cannot be played", bound.name);
}

/// Returns the communicator of a sum, with the workspace that it has in the plan.
Communicator& OperationRunner::summing_communicator(const Operation& op, const BoundOperation& bound) {
  Communicator& communicator = resources_.communicators->of(op.queue, op.group);
  communicator.set_workspace(bound.workspace);
  return communicator;
}

/// Copies between device and host, as slowly as the settings ask if the copy is of something offloaded.
void OperationRunner::copy(const Operation& op, const BoundOperation& bound, Stream& stream) {
  using Clock = std::chrono::steady_clock;
  const Emulation& slow = resources_.settings.copies;
  const bool is_slowed = slow.on() && copied_bytes(schedule_, op) > 0;
  const auto start = is_slowed ? Clock::now() : Clock::time_point();
  for (const BoundOperation::Copy& one : bound.copies)
    resources_.compute->copy(op.queue, stream, one.to, one.from, one.bytes);
  if (!is_slowed) return;
  const std::chrono::duration<double> time(slow.seconds(copied_bytes(schedule_, op)));
  sleep_until(start + std::chrono::duration_cast<Clock::duration>(time));
}

/// Finds the largest magnitudes of weights in this rank's slice, as parts read them.
void OperationRunner::find_magnitudes(const Operation& op, const BoundOperation& bound, Stream& stream) {
  Kernels& kernels = resources_.compute->kernels(op.queue);
  kernels.run(stream, FillZero{at(op.writes[0]), schedule_.value(op.writes[0]).bytes()});
  for (const BoundOperation::Range& range : bound.ranges) {
    kernels.run(stream, LargestMagnitude{{range.from, schedule_.value(op.reads[0]).dtype()},
                                         range.elements,
                                         schedule_.policy.compute,
                                         range.largest});
  }
}

/// Casts a value, a bucket of it, or this rank's slice.
void OperationRunner::cast(const Operation& op, const BoundOperation& bound, Stream& stream) {
  const Value& made = schedule_.value(op.writes.empty() ? op.updates[0].after : op.writes[0]);
  const BoundOperation::Copy& copy = bound.copies[0];
  const std::int64_t elements = op.bucket.count > 0 ? op.bucket.count : made.elements;
  convert(op, bound, stream, copy.from, copy.to, made.dtype(), elements);
}

void OperationRunner::convert(const Operation& op, const BoundOperation& bound, Stream& stream, const void* from,
                              void* to, DType type, std::int64_t elements) {
  Kernels& kernels = resources_.compute->kernels(op.queue);
  const DType from_type = schedule_.value(op.reads[0]).dtype();
  if (type != DType::e4m3) return kernels.run(stream, Cast{{from, from_type}, {to, type}, elements});
  // Codes move as words: slices are multiples of 64 elements.
  if (from_type == type) return kernels.run(stream, Cast{{from, DType::fp32}, {to, DType::fp32}, elements / 4});
  for (const BoundOperation::Range& range : bound.ranges)
    kernels.run(stream, ToCodes{.x = {range.from, from_type},
                                .elements = range.elements,
                                .rounded_to = schedule_.policy.compute,
                                .largest = range.largest,
                                .codes = range.codes});
}

void OperationRunner::gather(const Operation& op, const BoundOperation& bound, Stream& stream) {
  const Value& full = schedule_.value(op.writes[0]);
  const std::int64_t slice = full.elements / schedule_.grid.size(op.group);
  std::byte* mine = at(op.writes[0]) + resources_.index_in(op.group) * slice * size_of(full.dtype());
  if (!schedule_.gathers_in_place(op)) convert(op, bound, stream, at(op.reads[0]), mine, full.dtype(), slice);
  resources_.communicators->of(op.queue, op.group).all_gather(stream, at(op.writes[0]), slice, full.dtype());
}

void OperationRunner::run_part(const Operation& op, const BoundOperation& bound, Stream& stream) {
  const Part& part = bound.model->parts[op.part];
  Kernels& kernels = resources_.compute->kernels(op.queue);
  for (const auto& [address, bytes] : bound.gaps) kernels.run(stream, FillZero{address, bytes});
  const auto& run = op.kind == OperationKind::backward ? part_backward : part_forward;
  run(kernels, stream, *bound.model, part, bound.buffers);
  if (part.kind != PartKind::head || bound.model->generates()) return;
  const bool keeps = bound.buffers.sample_losses != nullptr;
  kernels.run(stream, AccountArguments{bound_.scalars, bound_.reduced, bound.clears_sums,
                                       keeps ? bound_.sample_losses : SampleLosses()});
}

void OperationRunner::accumulate(const Operation& op, Stream& stream) {
  Kernels& kernels = resources_.compute->kernels(op.queue);
  const bool updates = !op.updates.empty();
  const ValueId made = updates ? op.updates[0].after : op.writes[0];
  const std::int64_t elements = schedule_.value(made).elements;
  if (!updates && op.reads.size() == 1) return kernels.run(stream, Cast{row(op.reads[0]), row(made), elements});
  kernels.run(stream, Add{row(updates ? made : op.reads[1]), row(op.reads[0]), row(made), elements});
}

}  // namespace tessera
