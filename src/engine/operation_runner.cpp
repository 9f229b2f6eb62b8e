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

void OperationRunner::transfer(OperationId id, Stream& stream) {
  const Operation& op = schedule_.operation(id);
  const BoundOperation& bound = bound_[id];
  switch (op.kind) {
    case OperationKind::gather: {
      const Value& full = schedule_.value(op.writes[0]);
      return resources_.communicators->of(op.queue, op.group)
          .all_gather(stream, at(op.writes[0]), full.elements / schedule_.grid.size(op.group), full.dtype());
    }
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
    case OperationKind::exchange:
      return resources_.communicators->of(op.queue, op.group)
          .exchange(stream, at(op.reads[0]), at(op.writes[0]), op.runs, schedule_.value(op.reads[0]).dtype());
    case OperationKind::load_input:  // the player's
      throw InternalError("operation {} cannot be played", bound.name);
    default:
      return copy(op, bound, stream);
  }
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

}  // namespace tessera
