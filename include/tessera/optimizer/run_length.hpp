#pragma once
// How long a run is, and how far along its schedule the learning rate is at each step.
//
// train.steps counts steps. Then the rate is a function of the share of steps that are done, whatever their batch.
// train.epochs and train.tokens count samples. Then the rate is a function of the share of samples that were read: a
// run that goes on with another global batch needs more or fewer steps for the rest of its samples, and its rate goes
// on where it was. Steps of the schedule, those of optim.warmup_steps among them, are in that case steps of the batch
// with which the run began.

#include <cstdint>

namespace tessera {

/// Where a run goes on; all 0: at its beginning.
struct RunPosition {
  std::int64_t step = 0;         ///< steps done
  std::int64_t next_sample = 0;  ///< samples read so far
  std::int64_t first_batch = 0;  ///< samples of the run's first step; 0: as many as in the next one
  std::int64_t sequence = 0;     ///< tokens of each of these samples; 0: as many as in the next ones
  bool operator==(const RunPosition&) const = default;
};

/// Returns a position in samples of another length, rounded down: the same tokens were read.
RunPosition in_samples_of(std::int64_t sequence, RunPosition position);

/// How far a schedule is, in its steps: before a step and after it, of all.
struct RateProgress {
  double before = 0, after = 0, all = 0;
};

class RunLength {
 public:
  RunLength() = default;
  /// Of a run that reads `samples` samples, or of one of `steps` steps where these are 0, with `batch` samples per step
  /// from `from` on.
  RunLength(std::int64_t steps, std::int64_t samples, std::int64_t batch, const RunPosition& from);

  /// Returns the number of the last step; that of the last one done if there is nothing left to read.
  std::int64_t steps() const { return steps_; }
  /// Returns the samples that are read when all steps are done.
  std::int64_t samples() const { return samples_after(steps_); }
  /// Returns the length of the learning rate's schedule, in its steps.
  std::int64_t schedule_steps() const { return schedule_steps_; }
  RateProgress progress(std::int64_t step) const;

 private:
  std::int64_t samples_after(std::int64_t step) const { return from_.next_sample + (step - from_.step) * batch_; }

  RunPosition from_;
  std::int64_t batch_ = 1, steps_ = 0, schedule_steps_ = 0;
  bool counts_samples_ = false;
};

}  // namespace tessera
