#pragma once
// What may be changed about a run that needs too much memory: single options, and the best combination of them.

#include <optional>
#include <string>
#include <vector>

#include "tessera/schedule/fit.hpp"

namespace tessera {

/// A changed option and the run with it.
struct Change {
  std::string option;
  RunShape shape;
};

/// Bytes with a change, or nothing where it is impossible beside the other options.
std::optional<std::int64_t> bytes_with(const Change& change);

/// Single changes in the order of what they cost, with the largest micro-batch that fits.
std::vector<Change> single_changes(const RunShape& shape, std::int64_t allowed);

/// For where no single change is enough: fills `together` with the combination that fits, less what it does not need,
/// or `smallest` with the least of all combinations.
void combine(const RunShape& shape, FitAnswer& answer);

}  // namespace tessera
