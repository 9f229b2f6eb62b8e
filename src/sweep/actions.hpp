#pragma once
// The actions of `tessera sweep`, one function per action. Each returns the exit code.

#include <set>
#include <string>
#include <vector>

#include "sweep/folder.hpp"

namespace tessera {

/// A sweep, read and checked.
struct Sweep {
  SweepFile file;
  std::vector<SweepRow> rows;    ///< all
  std::vector<SweepRow> chosen;  ///< those that sweep.only names
};

/// Prints each row's memory, and the command that would start it.
int print_sweep(const Sweep& sweep);
/// Prints the progress of each row.
int show_status(const Sweep& sweep);
/// Runs the rows that are not settled, one after the other, on this machine.
int run_here(const Sweep& sweep);
/// Runs the one row of an array's task.
int run_in_job(const Sweep& sweep);
/// Submits the rows that have not ended, as one array of jobs for each number of ranks, and the report after them.
int submit_rows(const Sweep& sweep);
/// Makes failed rows pending again, and starts them as the sweep was started before.
int retry_rows(const Sweep& sweep);

/// Returns 0 if all rows are done, do not fit or are skipped, otherwise the code of the first other row.
int exit_code_of(const std::vector<RowStatus>& statuses);

/// Throws UsageError if jobs of an earlier submission have not ended, because their rows would run twice.
void require_none_queued(const SweepFolder& folder);

/// Returns the jobs of pending rows that have left Slurm's queue, as after scancel: nothing will start these rows.
std::set<std::string> lost_jobs(const SweepFolder& folder, const std::vector<SweepRow>& rows);

}  // namespace tessera
