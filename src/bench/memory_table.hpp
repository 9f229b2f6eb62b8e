#pragma once
// The table of `tessera bench memory`.

#include "bench/memory_cases.hpp"
#include "bench/memory_use.hpp"
#include "bench/result.hpp"

namespace tessera {

/// A combination, with its memory or the reason why it cannot run.
struct MemoryRow {
  MemoryCase one;
  std::string refused;
  MemoryUse use;
};

/// Measures all combinations of the options' run, one after the other. A combination that is refused gets the reason.
/// Throws UsageError if the data cannot be opened, or no combination can run. Collective; the same rows on all ranks.
std::vector<MemoryRow> memory_rows(RankContext& context, const Options& options, const MachineShape& machine);

/// Returns the rows as text, for each the rank with the largest unnamed part, and as a table of all ranks.
BenchResult memory_table(const std::vector<MemoryRow>& rows, DeviceKind device);

}  // namespace tessera
