#pragma once
// plan.view = fit: the fastest configurations of a run that fit, and why the others lost.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/schedule/planned_run.hpp"
#include "tessera/simulate/predict.hpp"

namespace tessera {

struct SearchedOption {
  std::string name, own;  ///< the run's own value need not be typed
  std::vector<std::string> values;
  int stage = 0;  ///< if there are too many combinations
};

/// Predicted times this near each other are equal: predictions are off by 1.5% in the median (docs/foresight.md).
inline constexpr double kSameTime = 0.015;
inline constexpr std::size_t kKept = 20;       ///< configurations that go on to the next stage
inline constexpr std::size_t kFitWidth = 100;  ///< columns of the text

/// A configuration: values of the searched options, as far as they have an effect.
struct FitRow {
  Options options;
  std::vector<std::string> words = {};        ///< "--shard.wrap=size": the strategy, and what is not the run's own
  std::string kind = {};                      ///< the words without those of prefetch
  std::string refused = {};                   ///< why it is impossible; empty if it is not
  std::int64_t bytes = 0;                     ///< per rank (limited_bytes), planned quickly if it fits
  std::optional<Prediction> prediction = {};  ///< if it fits; without spans
};

struct FitSearch {
  std::vector<SearchedOption> space;
  std::int64_t allowed = 0;  ///< bytes per rank
  /// Those that fit: first the ones as fast as the fastest (kSameTime), the least memory first and the fewest options
  /// among equals, then the fastest first. Then the others, the smallest first; then refused ones.
  std::vector<FitRow> rows = {};
  double least_seconds = 0;  ///< a step of the fastest
  bool in_stages = false;    ///< not every combination was tried
};

/// Returns what is searched, each option with the run's own value too.
std::vector<SearchedOption> searched_options(const Options& options);

/// Tries all combinations if there are few; else stage after stage, each from the best of the one before. `options`: on
/// the cluster (on_cluster); `own`: of that run. UsageError if no memory is known, or all are impossible; DoesNotFit if
/// none fits.
FitSearch search_fit(const Options& options, const RunShape& own, const Cluster& cluster,
                     std::vector<SearchedOption> space);

/// Returns the fastest, the losers by reason, and what was searched. Ends with the command of the first.
std::string fit_search_text(const FitSearch& search, const Options& options);
/// Returns the same facts.
nlohmann::ordered_json fit_search_json(const FitSearch& search, const Options& options);

}  // namespace tessera
