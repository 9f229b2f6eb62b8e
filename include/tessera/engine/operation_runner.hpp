#pragma once
// Runs one operation: passes it to the kernels or to a communicator, on a stream.

#include "tessera/engine/bound_schedule.hpp"

namespace tessera {

class OperationRunner {
 public:
  /// All must outlive the runner.
  OperationRunner(const StepSchedule& schedule, const BoundSchedule& bound, const Resources& resources,
                  const Optimizer& optimizer, std::uint64_t chaos_seed)
      : schedule_(schedule), bound_(bound), resources_(resources), optimizer_(optimizer), chaos_seed_(chaos_seed) {}

  /// Counts the segments played, on which delays depend.
  void begin_segment() { ++plays_; }
  /// Starts some operations late, by seed, under QueueMode::chaos.
  void delay(OperationId id) const;

  /// Runs an operation as work of the stream (Task). Loads are not run here, because they need a feed.
  void run(OperationId id, Stream& stream);

 private:
  void dispatch(const Operation& op, const BoundOperation& bound, Stream& stream);
  Communicator& summing_communicator(const Operation& op, const BoundOperation& bound);
  void gather(const Operation& op, const BoundOperation& bound, Stream& stream);
  void copy(const Operation& op, const BoundOperation& bound, Stream& stream);
  void find_magnitudes(const Operation& op, const BoundOperation& bound, Stream& stream);
  /// Converts what an operation reads, at `from`, to the type of `made` at `to`: to codes with known magnitudes.
  void convert(const Operation& op, const BoundOperation& bound, Stream& stream, const void* from, void* to, DType type,
               std::int64_t elements);
  void cast(const Operation& op, const BoundOperation& bound, Stream& stream);
  void run_part(const Operation& op, const BoundOperation& bound, Stream& stream);
  void accumulate(const Operation& op, Stream& stream);
  std::byte* at(ValueId value) const { return resources_.address(schedule_.value(value).storage); }
  View row(ValueId value) const { return {at(value), schedule_.value(value).dtype()}; }

  const StepSchedule& schedule_;
  const BoundSchedule& bound_;
  const Resources& resources_;
  const Optimizer& optimizer_;
  std::uint64_t chaos_seed_;
  std::int64_t plays_ = 0;
};

}  // namespace tessera
