#pragma once
// How long the rows of a sweep will take, at the prices of sweep.cluster.

#include <map>
#include <string>
#include <vector>

#include "sweep/rows.hpp"

namespace tessera {

/// A row's steps at their predicted time. Evaluation, checkpoints and the start are not in it.
struct ExpectedTime {
  std::int64_t steps = 0;
  double step_seconds = 0, uncertainty = 0;
  std::string missing = {};  ///< why nothing is expected; empty if something is
  double seconds() const { return static_cast<double>(steps) * step_seconds; }
};

/// By the rows' names.
using ExpectedTimes = std::map<std::string, ExpectedTime>;

/// Predicts every row; one that cannot be predicted says why. UsageError if the file of prices cannot be read.
ExpectedTimes expected_times(const std::vector<SweepRow>& rows, const std::string& cluster);

/// Returns the rows' times and their sum over all runs.
std::string expected_text(const ExpectedTimes& times, const std::vector<SweepRow>& rows, const SweepOptions& sweep);

/// Puts the rows that end soonest first, and those without an expected time last.
void sort_by_time(std::vector<SweepRow>& rows, const ExpectedTimes& times);

}  // namespace tessera
