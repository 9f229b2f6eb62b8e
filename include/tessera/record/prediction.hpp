#pragma once
// A run's prediction: made with plan.cluster before its first step, and compared with its measured steps at the end.

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/run/metrics_file.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/simulate/predict.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

/// A predicted step, and the file of prices behind it.
struct RunPrediction {
  Prediction step;
  std::string machine, file, hash;  ///< Cluster::name, file, hash
  std::int64_t threads = 1;         ///< compute threads per rank that the prices are for
  std::int64_t run_threads = 1;     ///< those of the run
  double unix_time = 0;             ///< when it was made
  std::string remark = {};          ///< see remark_on_host
};

/// Predicts the run's step; nothing without plan.cluster. `options` are resolved. UsageError if the prices are of
/// another device than the run's, or if one that the step needs is missing.
std::optional<RunPrediction> predict_run(const PlannedRun& planned, const Options& options);

/// Returns "predicted  123 ms a step +- 6%, ...": the line before the first step.
std::string describe(const RunPrediction& prediction);

/// Returns a line on how much longer a step takes because own kernels compute attention; empty without prices.
std::string cost_of_own_attention(const PlannedRun& planned, const Options& options);

/// Returns the predicted seconds of the rows of flight_operations(): of operations, then of segments. 0: not in a step.
std::vector<double> expected_seconds(const Prediction& prediction, const StepSchedule& schedule);

/// Returns the groups of /prediction in metrics.h5.
std::vector<AttributeGroup> prediction_groups(const RunPrediction& prediction);

/// A step whose operations were timed.
struct TimedStep {
  double seconds = 0;
  StepTimeTotals times;
};

/// Medians over measured steps on rank 0, in seconds; NaN: not measured.
struct StepMedians {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::size_t steps = 0, timed = 0;
  double seconds = kUnknown;
  std::array<double, kTimeCategories> time{};        ///< of the compute queue; of timed steps
  std::array<double, kTimeCategories> operations{};  ///< the operations themselves; of timed steps
  double host = kUnknown;                            ///< what no category has; of timed steps
};
StepMedians medians_of(std::vector<double> seconds, const std::vector<TimedStep>& timed);

/// Keeps the steps that are compared with a prediction: the last 256, and the last 256 that were timed. The first
/// fifth, 1 to 10 steps, is a warm-up and left out.
class MeasuredSteps {
 public:
  void add(double seconds, const StepTimeTotals& times);
  StepMedians medians() const;

 private:
  struct Step {
    std::int64_t number;
    TimedStep step;
  };
  std::int64_t steps_ = 0;
  std::deque<Step> last_, timed_;
};

/// A predicted time and the measured one, in seconds per step.
struct PredictedTime {
  std::string name;  ///< "step", a category as in /steps/time, or "host": what no category has
  double predicted = 0, measured = 0;
  double uncertainty = 0;  ///< relative, as stated; 0: none is stated
};
/// Returns the step, then the categories that are predicted or measured, then the host.
std::vector<PredictedTime> compared_times(const Prediction& prediction, const StepMedians& medians);

/// Returns a sentence for every time that differs from its prediction by more than the stated uncertainty, and by at
/// least a hundredth of the predicted step.
std::vector<std::string> differences(const Prediction& prediction, const StepMedians& medians);

/// Returns the table of compared_times() and the sentences of differences(), for the end of a run. Empty without a
/// step.
std::string comparison(const RunPrediction& prediction, const StepMedians& medians);

}  // namespace tessera
