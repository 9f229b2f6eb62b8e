#pragma once
// The contents of a run's metrics file apart from its rows.

#include <string>

#include "tessera/record/recorder.hpp"

namespace tessera {

/// Numbers of /provenance that become known later.
inline constexpr const char *kFirstStep = "seconds_to_first_step", *kLoadAtEnd = "load_average_end",
                            *kForeignAtEnd = "gpu_foreign_processes_end";

MetricsLayout metrics_layout(const Options& options, const PlannedRun& planned, const RunAccount& account);

}  // namespace tessera
