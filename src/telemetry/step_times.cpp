#include "tessera/telemetry/step_times.hpp"

#include <limits>

namespace tessera {

const char* name_of(TimeCategory category) {
  constexpr std::array<const char*, kTimeCategories> names{"data",
                                                           "forward",
                                                           "recompute",
                                                           "backward",
                                                           "optimizer",
                                                           "exposed_gather",
                                                           "exposed_reduce_scatter",
                                                           "exposed_all_reduce",
                                                           "exposed_other"};
  return names[static_cast<std::size_t>(category)];
}

std::vector<std::string> time_category_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTimeCategories; ++i) names.emplace_back(name_of(static_cast<TimeCategory>(i)));
  return names;
}

double StepTimeTotals::seconds(TimeCategory category) const {
  if (!measured) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(nanoseconds[static_cast<std::size_t>(category)]) * 1e-9;
}

double StepTimeTotals::exposed_seconds() const {
  return seconds(TimeCategory::exposed_gather) + seconds(TimeCategory::exposed_reduce_scatter) +
         seconds(TimeCategory::exposed_all_reduce);
}

StepTimeTotals StepTimes::take() {
  StepTimeTotals totals;
  totals.measured = measured_.exchange(true, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    totals.nanoseconds[i] = nanoseconds_[i].exchange(0, std::memory_order_relaxed);
    totals.operations[i] = operations_[i].exchange(0, std::memory_order_relaxed);
  }
  return totals;
}

}  // namespace tessera
