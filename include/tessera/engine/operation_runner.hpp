#pragma once
// Runs one operation: passes it to the kernels or to a communicator, on a stream.

#include "tessera/engine/bound_schedule.hpp"

namespace tessera {

class OperationRunner {
 public:
  /// All must outlive the runner.
  OperationRunner(const StepSchedule& schedule, const BoundSchedule& bound, const Resources& resources,
                  std::uint64_t chaos_seed)
      : schedule_(schedule), bound_(bound), resources_(resources), chaos_seed_(chaos_seed) {}

  /// Counts the segments played, on which delays depend.
  void begin_segment() { ++plays_; }
  /// Starts some operations late, by seed, under QueueMode::chaos.
  void delay(OperationId id) const;

  /// Runs an operation as work of the stream (Task). Loads are not run here, because they need a feed.
  void run(OperationId id, Stream& stream) {
    run(id, stream, [&](Kernels& kernels, const KernelArguments& call) { kernels.run(stream, call); });
  }
  /// The same, with kernels run by call(Kernels&, arguments).
  template <class Call>
  void run(OperationId id, Stream& stream, Call&& call) {
    Kernels& kernels = resources_.compute->kernels(schedule_.operation(id).queue);
    resources_.device->begin_range(bound_[id].name.c_str());
    for (const KernelArguments& kernel : bound_[id].kernels) call(kernels, kernel);
    transfer(id, stream);
    resources_.device->end_range();
  }

 private:
  /// Runs what follows an operation's kernels: a collective, or copies.
  void transfer(OperationId id, Stream& stream);
  Communicator& summing_communicator(const Operation& op, const BoundOperation& bound);
  void copy(const Operation& op, const BoundOperation& bound, Stream& stream);
  std::byte* at(ValueId value) const { return resources_.address(schedule_.value(value).storage); }

  const StepSchedule& schedule_;
  const BoundSchedule& bound_;
  const Resources& resources_;
  std::uint64_t chaos_seed_;
  std::int64_t plays_ = 0;
};

}  // namespace tessera
