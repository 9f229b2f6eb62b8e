#pragma once
// A run reports a step, an evaluation, a checkpoint or its ranks in one of these structures. measures.hpp says which of
// their numbers are recorded, and where.

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tessera/backend/device_monitor.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/optimizer/optimizer.hpp"
#include "tessera/telemetry/overlap.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// One step on this rank.
struct StepReport {
  std::int64_t step = 0;
  StepResult result;
  double seconds = 0;
  StepTimeTotals times;
  CommunicationCounts communication;  ///< of this step
  std::vector<SourceLoss> sources{};  ///< of a mixture
  // RunRecorder adds:
  double tokens_per_second = 0, unix_time = 0;
  double recording_seconds = 0;  ///< that it took since the row before
  /// Returns the share of the step in which compute waited for communication; NaN if it was not timed.
  double exposed_share() const { return times.exposed_seconds() / seconds; }
};

/// The losses of all validation sets after a step.
struct EvaluationReport {
  std::int64_t step = 0;
  std::vector<Evaluation> sets;
};

/// One checkpoint that was written.
struct CheckpointReport {
  std::int64_t step = 0;
  std::int64_t bytes = 0;           ///< of all files together
  double blocked_seconds = 0.0;     ///< while training waited
  double waited_seconds = 0.0;      ///< of these: while waiting for the previous checkpoint
  double background_seconds = 0.0;  ///< while training went on
  std::filesystem::path folder{};
  std::vector<std::string> notes{};  ///< lines for the user (rank 0): checkpoints set aside, failed deletions
};

/// One rank's values since the previous report. Ranks send it as it lies in memory.
struct RankValues {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::array<double, kTimeCategories> times{};  ///< seconds in timed steps; NaN: none was timed
  CommunicationCounts communication;
  std::int64_t process = -1;                                        ///< bytes; -1: not measured
  double memory_peak = kUnknown;                                    ///< bytes, since the start
  double memory_average = kUnknown;                                 ///< bytes
  DeviceSample device{kUnknown, -1, kUnknown, kUnknown, kUnknown};  ///< all unknown, as on cores, which have no monitor
};

/// The times of all ranks in one timed step.
struct OverlapRow {
  std::int64_t step = 0;
  Straggler straggler;
  std::vector<Spread> times;  ///< over the ranks, seconds; in the order of overlap_names()
};

/// A report of all ranks.
struct RankRow {
  std::int64_t step = 0;                    ///< after which it was made
  std::int64_t steps = 0, timed_steps = 0;  ///< since the previous report
  std::vector<RankValues> ranks;
  Straggler straggler;                ///< over the timed steps together
  std::vector<OverlapRow> overlap;    ///< the timed steps, one by one
  std::vector<double> layer_norms{};  ///< of the step's gradient, of each unit
};

}  // namespace tessera
