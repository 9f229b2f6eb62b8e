#pragma once
// What can be changed about a run that needs too much memory: single options, and the best combination of them.

#include <optional>
#include <string>
#include <vector>

#include "tessera/fit/fit.hpp"

namespace tessera {

/// A changed option and the run with it.
struct Change {
  std::string option;
  RunShape shape;
};

/// Returns the bytes with a change, or nothing if it is impossible with the other options.
std::optional<std::int64_t> bytes_with(const Change& change);

/// Returns single changes, the cheapest first, with the largest micro-batch that fits.
std::vector<Change> single_changes(const RunShape& shape, std::int64_t allowed);

/// If no single change is enough, fills `together` with the combination that fits, without the changes it does not
/// need. If none fits, fills `smallest` with the least of all combinations.
void combine(const RunShape& shape, FitAnswer& answer);

}  // namespace tessera
