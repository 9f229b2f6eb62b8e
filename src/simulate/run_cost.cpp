#include "tessera/simulate/run_cost.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tessera/base/format.hpp"

namespace tessera {

RunCost cost_of(std::int64_t steps, const StepSchedule& schedule, const Prediction* prediction, std::int64_t threads) {
  RunCost cost;
  cost.steps = steps;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t per_step = schedule.grid.world() * schedule.policy.accumulation * schedule.model.tokens();
  cost.tokens = steps > most / per_step ? most : steps * per_step;
  if (prediction == nullptr) return cost;
  cost.counts_cores = !traits_of(schedule.model.device).is_accelerator;
  cost.seconds = static_cast<double>(steps) * prediction->step_seconds;
  cost.uncertainty = prediction->uncertainty;
  const std::int64_t devices = schedule.grid.world() * (cost.counts_cores ? threads : 1);
  cost.device_hours = cost.seconds / 3600 * static_cast<double>(devices);
  return cost;
}

std::string describe(const RunCost& cost) {
  const std::string text = fmt::format("{} step{} = {} tokens", with_commas(cost.steps), cost.steps == 1 ? "" : "s",
                                       format_rate(static_cast<double>(cost.tokens)));
  if (std::isnan(cost.seconds)) return text;
  const std::string time = fmt::format("{}: {} +- {:.0f}%", text, format_seconds(cost.seconds), 100 * cost.uncertainty);
  if (cost.device_hours < 0.05) return time;
  return fmt::format("{}, {} {}-hours", time, format_rate(cost.device_hours), cost.counts_cores ? "core" : "GPU");
}

nlohmann::ordered_json cost_json(const RunCost& cost) {
  nlohmann::ordered_json json{{"steps", cost.steps}, {"tokens", cost.tokens}};
  if (std::isnan(cost.seconds)) return json;
  json["seconds"] = cost.seconds;
  json[cost.counts_cores ? "core_hours" : "gpu_hours"] = cost.device_hours;
  return json;
}

}  // namespace tessera
