#pragma once
#include "tessera/fit/fit.hpp"

namespace tessera {

/// Plans a run and examines it.
inline FitAnswer examine_fit(const RunShape& shape, std::int64_t allowed) {
  const PlannedRun planned = plan_shape(shape);
  return examine_fit(shape, planned.schedule, planned.plan, allowed);
}

}  // namespace tessera
