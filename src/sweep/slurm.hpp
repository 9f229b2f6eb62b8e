#pragma once
// What a sweep asks of Slurm.

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "sweep/child.hpp"

namespace tessera {

/// Returns whether this process runs in a step that srun started, as in the shell of `srun --pty`. A further step then
/// gets no resources until this one has ended, unless it may overlap with it.
bool in_step_of_srun();
/// Returns variables with which a launcher starts ranks: the ranks of all nodes of a step begin together (jobs/job.sh
/// says why), and within a step of srun a further one overlaps, and Open MPI's mpiexec takes this machine's cores as
/// they are. Nothing that the user has set.
Variables variables_of_launcher();

/// Returns whether this Slurm has GPUs.
bool cluster_has_gpus();

/// Returns how many tasks an array may have whose first index is 1. Throws UsageError where Slurm allows none.
std::int64_t longest_array();

/// Submits a job as a user does from a login shell: with the settings of site.sh in the folder `jobs`, and without the
/// variables of the job, step or rank in which this process runs, which Slurm would take for the new job's. Returns its
/// number. Throws UsageError if sbatch refuses.
std::string submit_job(const std::filesystem::path& jobs, const std::vector<std::string>& words);

/// Returns whether the job waits or runs, as far as Slurm knows.
bool is_queued(const std::string& job);

/// Returns those of the jobs (JOB, or ARRAY_TASK) that neither wait nor run; none where squeue gives no answer.
std::set<std::string> ended_jobs(const std::set<std::string>& jobs);

/// Returns whether Slurm cancels the jobs.
bool cancel_jobs(const std::vector<std::string>& jobs);

}  // namespace tessera
