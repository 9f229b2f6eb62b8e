#pragma once
// Facts in the environment about processes that a launcher started: mpirun, mpiexec, srun.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// This process among those of its launcher. Without a launcher: the first of one.
struct Launch {
  std::string launcher;  ///< "Open MPI", "PMI" (MPICH, Intel MPI), "Slurm", "PBS" (pbsdsh); empty without one
  std::int64_t rank = 0, size = 1;
  bool has_pmi = false;           ///< a process manager talks to MPI
  std::int64_t machine_size = 0;  ///< how many of them are on this machine; 0: not known
  /// JOB.STEP of Slurm where only variables say so, and they may be another job's: sbatch hands on those of the step in
  /// which it was called. Otherwise empty.
  std::string doubtful_step = {};

  /// Returns whether MPI needs no launcher, because this is the only process: also in a shell that srun started.
  bool is_alone() const;
};

/// Reads `environment`: NAME=value. The innermost launcher counts: mpirun in a step of Slurm is mpirun.
Launch find_launch(const std::vector<std::string>& environment);
/// Reads the environment of this process.
Launch find_launch();
/// The same, but asks Slurm about a doubtful step. A process is alone if there is no such step.
Launch confirmed_launch();

/// A variable of the environment.
struct EnvironmentVariable {
  std::string name, value;
  bool operator==(const EnvironmentVariable&) const = default;
};

/// Returns settings with which Open MPI starts faster; none for processes of several machines. With them it does not
/// look for a network, and a process without a launcher does not start a daemon. Messages between processes of one
/// machine stay the same, and other libraries do not read the settings.
std::vector<EnvironmentVariable> quick_start(const Launch& launch);
/// Returns the names of variables that MPI must not see: those by which it would look for the launcher of a process
/// that is alone, and then end or wait.
std::vector<std::string> hidden_variables(const Launch& launch, const std::vector<std::string>& environment);
/// Applies both to this process. What the user has set stays. Call it before MPI and threads start.
void prepare_environment(const Launch& launch);

/// UsageError when Slurm or pbsdsh started several processes and no process manager can tell MPI about them, because each would
/// train alone, or Open MPI would end with remarks about its build. Call it before MPI starts.
void require_process_manager(const Launch& launch);
/// UsageError when the launcher started several processes but MPI sees one. In both functions, processes other than the
/// launcher's first end here silently, a second later.
void require_all_seen(const Launch& launch, std::int64_t seen_by_mpi);

/// Returns the method by which srun tells this MPI library about its ranks: "pmix", or "pmi2" for MPICH.
const char* mpi_of_srun();

/// The environment variable by which a starter of ranks may state their number.
inline constexpr const char* kRanksVariable = "TESSERA_RANKS";

/// UsageError where that variable differs from `ranks`: the launcher started more or fewer.
void require_wanted_ranks(std::int64_t ranks);

/// The environment variable that the job scripts set for a training; see require_named_data (config/fine_tuning.hpp).
inline constexpr const char* kJobVariable = "TESSERA_JOB_SCRIPT";

}  // namespace tessera
