#pragma once
// Plays the kernels of a training step on this rank's device for `bench kernels`, in the memory of one block.

#include <memory>
#include <vector>

#include "bench/kernel_times.hpp"
#include "bench/one_block.hpp"
#include "tessera/engine/operation_runner.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

class KernelPlayer {
 public:
  /// Opens this rank's device with initial weights and drawn tokens, and plays the schedule's evaluation once, if it
  /// has one. Collective over the world. Throws UsageError if there is too little memory.
  KernelPlayer(RankContext& context, const Options& options, const MachineShape& machine, StepSchedule schedule);

  /// Plays one of each kind of the step's operations, in list order on one stream. Its kernels are added to times() and
  /// are stretches of clock(). Collective over the world.
  void play();

  KernelTimes& times() { return times_; }
  StreamClock& clock() { return clock_; }
  const StepSchedule& schedule() const { return run_.schedule; }
  const Resources& resources() const { return resources_; }
  Device& device() const { return *resources_.device; }
  Stream& stream() const { return *stream_; }
  Kernels& kernels() const { return resources_.compute->kernels(Queue::compute); }
  /// Returns "AVX-512, oneDNN 2.6.3, threads: 2", "NVIDIA H200, ...".
  Implementation description() const;

 private:
  void set_weights(std::uint64_t seed);
  void set_tokens(std::uint64_t seed);
  void play(OperationId id, bool is_timed);

  PlannedRun run_;
  Resources resources_;
  std::unique_ptr<Stream> stream_;
  Optimizer optimizer_;
  BoundSchedule bound_;
  OperationRunner runner_;
  std::vector<CountedOperation> operations_;
  StreamClock clock_;
  KernelTimes times_;
};

}  // namespace tessera
