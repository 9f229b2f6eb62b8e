#pragma once
// One attempt at a row: a process that is watched, and its outcome.

#include <functional>
#include <string>

#include "sweep/child.hpp"
#include "sweep/folder.hpp"

namespace tessera {

struct AttemptSettings {
  const SweepOptions& sweep;
  bool in_job = false;  ///< Slurm limits the attempt, and starts the row again
  std::function<void(const std::string&)> say;
  double progress_every = 30.0;  ///< seconds between lines about the row, unless it is one line of a terminal
};

/// Runs repeat `repeat` of a row, from where an earlier attempt left it, and writes its status before and after. A row
/// that does not fit, or that this machine cannot run, is not started. Holds the row's lock.
RowStatus attempt_row(const SweepFolder& folder, const SweepRow& row, std::int64_t repeat,
                      const AttemptSettings& settings, SweepSignals& signals);

/// Returns "12/100" or "starting", by the run's own status.json; empty if there is none.
std::string progress_of(const std::filesystem::path& run);

}  // namespace tessera
