#pragma once
// What the environment says about the processes that a launcher started: mpirun, mpiexec, srun.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// This process among those of its launcher. Without a launcher: the first of one.
struct Launch {
  std::string launcher;  ///< "Open MPI", "PMI" (MPICH, Intel MPI), "Slurm"; empty without one
  std::int64_t rank = 0, size = 1;
  bool has_pmi = false;  ///< a process manager talks to MPI
};

/// `environment`: NAME=value. The innermost launcher counts: mpirun in a step of Slurm is mpirun.
Launch find_launch(const std::vector<std::string>& environment);
/// Of this process.
Launch find_launch();

/// To be called before MPI starts. UsageError when Slurm started several processes and no process manager can tell MPI
/// about them: each would train alone, or Open MPI end with remarks about how it was built.
void require_process_manager(const Launch& launch);
/// UsageError when the launcher started several processes and MPI sees one.
/// Both: processes other than the launcher's first end here without a word, a second later.
void require_all_seen(const Launch& launch, std::int64_t seen_by_mpi);

/// The environment variable in which whoever starts ranks may say how many there must be.
inline constexpr const char* kRanksVariable = "TESSERA_RANKS";

/// UsageError where that variable says another number than `ranks`: a launcher that started more or fewer.
void require_wanted_ranks(std::int64_t ranks);

}  // namespace tessera
