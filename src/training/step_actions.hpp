#pragma once
// What follows a step, as a table: the rows are done from top to bottom.

#include <cstdint>
#include <optional>
#include <span>

#include "tessera/flight/record.hpp"
#include "tessera/training/checkpoint_writer.hpp"
#include "tessera/training/dump.hpp"
#include "tessera/training/recent_spread.hpp"
#include "tessera/training/train_loop.hpp"

namespace tessera {

/// Whether an evaluation or, with the sum of the ranks' requests, a checkpoint is due after a step. The same on every
/// rank, because both use only options and sums. `last`: the run's last step.
bool evaluation_is_due(const Options& options, std::int64_t step, std::int64_t last);
bool checkpoint_is_due(const Options& options, std::int64_t step, std::int64_t last, std::int64_t requests);

/// A finished step and what decides what follows it, which is the same on every rank.
struct DoneStep {
  const Options& options;
  const StepTrace* trace;            ///< null without run.trace
  std::int64_t first = 1, last = 1;  ///< the first step of this start, and the last of the run
  bool reports_are_full = false;
  StepReport report;

  std::int64_t step() const { return report.step; }
  std::int64_t requests() const { return report.result.stop_requests; }
  bool stops() const { return StepRequests::stop(requests()); }
  bool evaluates() const { return evaluation_is_due(options, step(), last); }
};

/// What the actions of a rank's loop share.
struct TrainState : TrainSite {
  explicit TrainState(const TrainSite& site);

  void report(std::int64_t step);
  void write_sample(std::int64_t step);
  void begin_checkpoint(std::int64_t step);
  void note_finished_checkpoints();
  /// Waits until checkpoints that are being written are on disk.
  void finish_checkpoints();

  CheckpointWriter checkpoints;
  StopConditions conditions;
  std::optional<StepDump> dump;                                           ///< in the step run.dump
  std::int64_t evaluated_step = -1, reported_step = -1, saved_step = -1;  ///< the latest ones
  double evaluation_seconds = 0;
  std::optional<double> checkpoint_seconds;  ///< of the latest one
  int bad_steps = 0;                         ///< in a row, skipped
  RecentSpread loss_spread, norm_spread;
  std::int64_t warned_step = 0;  ///< of the last warning of an odd step
  TrainEnd end;
};

/// A row. `when` is the same on every rank, so `act` may be collective.
struct StepAction {
  const char* name;
  FlightPhase phase;
  bool (*when)(const DoneStep& done);
  void (*act)(TrainState& state, const DoneStep& done);
};

std::span<const StepAction> step_actions();

}  // namespace tessera
