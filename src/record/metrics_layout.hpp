#pragma once
// The contents of a run's metrics file apart from its rows.

#include "tessera/record/recorder.hpp"

namespace tessera {

/// The tables of MetricsLayout. Those that a run lacks have no columns.
enum class RunTable : std::uint8_t { steps, evaluations, checkpoints, device, samples, layers, ranks, overlap };
inline constexpr std::size_t kTables = static_cast<std::size_t>(RunTable::overlap) + 1;
inline std::size_t at(RunTable table) { return static_cast<std::size_t>(table); }

MetricsLayout metrics_layout(const Options& options, const PlannedRun& planned, const RunAccount& account);

}  // namespace tessera
