#pragma once
// The loop around the steps of one rank: times, records, evaluates, dumps, makes checkpoints, stops.

#include <cmath>
#include <optional>
#include <string>

#include "tessera/record/rank_reports.hpp"
#include "tessera/record/recorder.hpp"
#include "tessera/record/run_facts.hpp"
#include "tessera/telemetry/provenance.hpp"
#include "tessera/training/checkpoint_writer.hpp"
#include "tessera/training/recent_spread.hpp"
#include "tessera/training/sample_writer.hpp"
#include "tessera/training/session.hpp"
#include "tessera/training/stop.hpp"
#include "tessera/training/stop_notice.hpp"

namespace tessera {

class TrainLoop {
 public:
  /// Collective. `recorder` exists on rank 0 only, `samples` with train.sample_every. Rank 0's `notice` tells the user
  /// of a stop. Everything must outlive the loop.
  TrainLoop(World& world, const Options& options, const Invocation& invocation, TrainingSession& session,
            const RunFacts& facts, const StopSignals& signals, RunRecorder* recorder, RankReports& reports,
            SampleWriter* samples = nullptr, StopNotice* notice = nullptr);

  /// Runs all remaining steps. Returns empty when all are done, otherwise where and why it stopped before. In that case
  /// a checkpoint of the last finished step is on disk, unless this start has finished none.
  std::string run();

  /// Returns the results of the last evaluation; empty before the first.
  const std::vector<Evaluation>& last_evaluations() const { return evaluations_; }
  double last_loss() const { return loss_; }

 private:
  std::string run_steps();
  /// Returns the sum of the ranks' requests; nothing if the step was given up.
  std::optional<std::int64_t> train(std::int64_t step);
  StepWish wish(std::int64_t begun);
  void begin_progress(std::int64_t step);
  std::string stop_before(std::int64_t step);
  bool report_is_due(std::int64_t step, std::int64_t requests) const;
  void report(std::int64_t step);
  bool trace_is_due(std::int64_t step, std::int64_t requests) const;
  void trace(std::int64_t step);
  void keep_algorithms();
  void judge(std::int64_t step, const StepResult& result);
  void warn_of_odd(std::int64_t step, const StepResult& result);
  void evaluate(std::int64_t step);
  void write_sample(std::int64_t step);
  void begin_checkpoint(std::int64_t step);
  NamedLosses evaluation_of(std::int64_t step) const;
  void note_finished_checkpoints();
  void finish_checkpoints();
  LastTimes times(std::int64_t step) const;
  bool evaluation_is_due(std::int64_t step) const;
  bool checkpoint_is_due(std::int64_t step, std::int64_t requests) const;
  std::string reason_to_stop(const std::string& where);

  World& world_;
  const Options& options_;
  const Invocation& invocation_;
  TrainingSession& session_;
  RunRecorder* recorder_;
  RankReports& reports_;
  SampleWriter* samples_;
  StopNotice* notice_;
  CheckpointWriter checkpoints_;
  StopConditions conditions_;
  int bad_steps_ = 0;  ///< in a row, skipped
  RecentSpread loss_spread_, norm_spread_;
  std::int64_t warned_step_ = 0;                                             ///< of the last warning of an odd step
  std::vector<Evaluation> evaluations_;                                      ///< after step `evaluated_step_`
  std::int64_t evaluated_step_ = -1, reported_step_ = -1, saved_step_ = -1;  ///< the latest ones
  StepProgress progress_;
  double loss_ = std::nan("");
  double step_seconds_ = 0, evaluation_seconds_ = 0;
  std::optional<double> checkpoint_seconds_;  ///< of the latest one
};

}  // namespace tessera
