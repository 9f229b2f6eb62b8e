#pragma once
// The origin of results: build, sources, machine, start time and command line.

#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Names and values in printing order; shown by /provenance of a metrics file and by --version.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Returns the facts of the executable: version, git_revision, compiler, build_type. git_revision is "unknown" outside
/// a repository and ends with "-dirty" if it has changes; both as of CMake's configuration.
Facts build_facts();

/// Facts that only other modules or the caller know.
struct RunFacts {
  std::vector<std::string> command_line;                       ///< argv
  double start_unix_time = 0.0;                                ///< seconds since 1970
  std::vector<std::string> hosts;                              ///< of all ranks, doubles allowed; empty: this host
  std::vector<std::pair<std::string, std::string>> libraries;  ///< ("mpi", "Open MPI 4.1.4"), ("hdf5", "1.10.8"), ...
  std::string gpu_name;                                        ///< "NVIDIA H200, sm_90"; empty on cores
  std::string gpu_driver;                                      ///< "550.54.15"; empty where it is not known
  std::string kernels;  ///< their description: on a GPU with its libraries, the choice of attention, and the
                        ///< communication backend
};

/// Returns build_facts and the facts of this run:
///   command_line (quoted so that a shell takes it back), start_time (UTC),
///   hosts (each once, with its ranks: "node1 x4, node2 x4"), cpu, isa, gpu_name, gpu_driver, kernels,
///   the libraries as NAME_version, and slurm_job_id, slurm_array_task_id, slurm_restart_count where Slurm set them
Facts provenance(const RunFacts& run);

/// Returns "Intel(R) Xeon(R) ...", from /proc/cpuinfo; "unknown" if it is not there.
std::string cpu_model();
/// Returns how many processes of this machine ran or wanted to in the last minute, on average; NaN if the system does
/// not tell.
double load_average();
/// Returns the best vector instructions here: "avx512", "avx2" or "baseline".
std::string cpu_isa();
/// Quotes one argument so that a POSIX shell reads it back.
std::string shell_quoted(const std::string& argument);

}  // namespace tessera
