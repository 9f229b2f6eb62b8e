#include "tessera/training/checkpoint_clock.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"

namespace tessera {

namespace {

constexpr double kOfANode = 30.0 * 24 * 3600;  ///< seconds from failure to failure

}  // namespace

double best_checkpoint_interval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost / (2 * mtbf);
  return std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

CheckpointClock::CheckpointClock(const CheckpointOptions& options, std::int64_t nodes, double estimate)
    : minutes_(options.every_minutes), cost_(estimate) {
  if (options.every == kAutomaticCount) mtbf_ = options.mtbf > 0 ? options.mtbf : kOfANode / static_cast<double>(nodes);
}

double CheckpointClock::interval() const {
  const double given = minutes_ > 0 ? 60 * minutes_ : std::numeric_limits<double>::infinity();
  if (mtbf_ == 0) return given;
  return std::min(given, std::max(best_checkpoint_interval(cost_, mtbf_), whole_));
}

bool CheckpointClock::is_due() const { return seconds_since(last_) >= interval(); }

std::string CheckpointClock::news() {
  const double now = interval();
  const bool is_best = mtbf_ > 0 && (minutes_ == 0 || now < 60 * minutes_);
  if (!is_best || std::abs(now - told_) <= told_ / 5) return "";
  const bool is_estimate = std::exchange(told_, now) == 0;
  return fmt::format("every {} (checkpoint.every = auto: one {} {}, and a failure comes every {})", format_seconds(now),
                     is_estimate ? "is assumed to take" : "stops the run for", format_seconds(cost_),
                     format_seconds(mtbf_));
}

}  // namespace tessera
