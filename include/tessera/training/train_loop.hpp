#pragma once
// The loop around the steps of one rank. What follows a step is a table: training/step_actions.hpp.

#include <cmath>
#include <string>
#include <vector>

#include "tessera/record/rank_reports.hpp"
#include "tessera/record/recorder.hpp"
#include "tessera/record/run_facts.hpp"
#include "tessera/telemetry/provenance.hpp"
#include "tessera/training/sample_writer.hpp"
#include "tessera/training/session.hpp"
#include "tessera/training/stop.hpp"
#include "tessera/training/stop_notice.hpp"

namespace tessera {

/// What a rank's loop works with. Everything must outlive it.
struct TrainSite {
  World& world;
  const Options& options;
  const Invocation& invocation;
  TrainingSession& session;
  const RunFacts& facts;
  const StopSignals& signals;
  Recorder& recorder;
  RankReports& reports;
  SampleWriter* samples = nullptr;  ///< with train.sample_every
  StopNotice* notice = nullptr;     ///< rank 0's tells the user of a stop
};

/// How the steps of a start ended.
struct TrainEnd {
  std::string stopped;                  ///< where and why, before all steps were done; empty: all are done
  bool by_stop_file = false;            ///< RUN/stop asked for that; on rank 0
  double loss = std::nan("");           ///< of the last step that has a finite one
  std::vector<Evaluation> evaluations;  ///< the last ones; empty if there was none
};

/// Runs all remaining steps. If it stops before they are done, a checkpoint of the last finished step is on disk,
/// unless this start has finished none. Collective.
TrainEnd train_steps(const TrainSite& site);

}  // namespace tessera
