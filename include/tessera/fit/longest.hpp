#pragma once
// train.seq_len = fit: the longest samples that fit, by strategy.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/fit/fit.hpp"

namespace tessera {

/// The longest sample under a strategy, and what memory decided with it.
struct LongestRow {
  Strategy strategy = Strategy::zero3;
  std::int64_t tokens = 0, bytes = 0;  ///< bytes per rank (limited_bytes)
  Recomputation recomputation = {};
  bool offloads_inputs = false;  ///< memory.offload_activations
  std::string impossible = {};   ///< empty if there is such a length
};

/// Finds them. `asked`: the options before memory decided any.
std::vector<LongestRow> longest_sequences(const Options& asked, const RunSite& site, const FitLimits& limits);

/// Returns the rows as a table.
std::string longest_text(const std::vector<LongestRow>& rows, std::int64_t allowed);
/// Returns the same facts.
nlohmann::ordered_json longest_json(const std::vector<LongestRow>& rows);

}  // namespace tessera
