#pragma once
// How long a whole run is: its steps, its tokens, and the time that they take by a prediction.

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/simulate/predict.hpp"

namespace tessera {

struct RunCost {
  std::int64_t steps = 0, tokens = 0;
  /// Of the steps alone, without evaluations and checkpoints; NaN without a prediction.
  double seconds = std::numeric_limits<double>::quiet_NaN();
  double uncertainty = 0;  ///< relative, of `seconds`
  double device_hours = 0;
  bool counts_cores = false;  ///< device_hours are of cores, not of GPUs
};

/// Returns the length of `steps` steps of a schedule. `prediction`: of one of them, or null; `threads`: per rank, which
/// decide how many cores are in use.
RunCost cost_of(std::int64_t steps, const StepSchedule& schedule, const Prediction* prediction, std::int64_t threads);

/// Returns "76,294 steps = 10.0B tokens: 2 d 20 h +- 6%, 271 GPU-hours", as far as it is known.
std::string describe(const RunCost& cost);

/// Returns the same as `plan` writes it (docs/manual/schedule_json.md).
nlohmann::ordered_json cost_json(const RunCost& cost);

}  // namespace tessera
