#pragma once
// One attempt at a row: a process, watched, and its outcome.

#include <functional>
#include <string>

#include "sweep/child.hpp"
#include "sweep/folder.hpp"

namespace tessera {

struct AttemptSettings {
  const SweepOptions& sweep;
  bool in_job = false;  ///< Slurm limits the attempt, and starts the row again
  std::function<void(const std::string&)> say;
};

/// Runs repeat `repeat` of a row, from where an earlier attempt left it, and writes its status, before and after. A row
/// that does not fit, or that this machine cannot run, is not started. Holds the row's lock.
RowStatus attempt_row(const SweepFolder& folder, const SweepRow& row, std::int64_t repeat,
                      const AttemptSettings& settings, SweepSignals& signals);

}  // namespace tessera
