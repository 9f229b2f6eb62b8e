#pragma once
// Where results come from: what was built, from which sources, on which machine, started how and when.

#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Names and values, in an order fit for printing; what /provenance of a metrics file and --version show.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// What the executable is: version, git_revision ("unknown" outside a repository, "-dirty" with changes in it, both as
/// of CMake's configuration), compiler, build_type.
Facts build_facts();

/// What only other rooms or the caller know.
struct RunFacts {
  std::vector<std::string> command_line;                       ///< argv
  double start_unix_time = 0.0;                                ///< seconds since 1970
  std::vector<std::string> hosts;                              ///< of all ranks, doubles allowed; empty: this host
  std::vector<std::pair<std::string, std::string>> libraries;  ///< ("mpi", "Open MPI 4.1.4"), ("hdf5", "1.10.8"), ...
  std::string gpu_name;                                        ///< "NVIDIA H200, sm_90"; empty on cores
  std::string gpu_driver;                                      ///< "550.54.15"; empty where it is not known
  std::string kernels;  ///< what computes: on a GPU with its libraries, the choice of attention, and how GPUs talk
};

/// build_facts and of this run: command_line (quoted so that a shell takes it back), start_time (UTC), hosts (each
/// once, with its ranks: "node1 x4, node2 x4"), cpu, isa, gpu_name, gpu_driver, kernels, the libraries as NAME_version,
/// and slurm_job_id, slurm_array_task_id, slurm_restart_count where Slurm set them.
Facts provenance(const RunFacts& run);

/// "node1.cluster", as the kernel says.
std::string host_name();
/// "Intel(R) Xeon(R) ...", from /proc/cpuinfo; "unknown" if it is not there.
std::string cpu_model();
/// How many processes of this machine ran or wanted to in the last minute, on average; NaN where the system does not
/// tell.
double load_average();
/// The best vector instructions here: "avx512", "avx2" or "baseline".
std::string cpu_isa();
/// One argument as a POSIX shell reads it back.
std::string shell_quoted(const std::string& argument);

}  // namespace tessera
