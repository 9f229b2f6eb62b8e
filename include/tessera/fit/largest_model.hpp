#pragma once
// plan.view = largest: the largest model of a run's family that fits, by strategy.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// Returns models of the family from small to large. Depth and MLP (and heads, where their width is a size of its own)
/// are interpolated by width between the family's published models, and in proportion beyond them. The width of a head,
/// the number or share of key/value heads, vocabulary and context are those of `own`.
std::vector<Architecture> models_like(const Architecture& own);

/// The largest model under a strategy. Bytes per rank; state, activations and reserve add up to the total.
struct LargestRow {
  Strategy strategy = Strategy::zero3;
  Architecture model;
  std::int64_t parameters = 0, ranks = 1;  ///< `ranks`: over which state is divided
  std::int64_t total = 0, state = 0, activations = 0, reserve = 0;
  std::string impossible = {};  ///< empty if there is such a model
};

/// Finds them. `asked`: the options before memory decided any. UsageError if no memory is known, or if the
/// recomputation names blocks of one model.
std::vector<LargestRow> largest_models(const RunShape& run, const Options& asked);

/// Returns the run's row with another model, whether it fits or not. UsageError if the strategy is impossible.
LargestRow row_of_model(RunShape shape, const Architecture& model, Strategy strategy);

/// Returns the rows with their arithmetic, and that of 16 bytes per parameter. `own`: the run's model.
std::string largest_text(const std::vector<LargestRow>& rows, const Architecture& own, std::int64_t allowed);
/// Returns the same facts.
nlohmann::ordered_json largest_json(const std::vector<LargestRow>& rows, const Architecture& own, std::int64_t allowed);

}  // namespace tessera
