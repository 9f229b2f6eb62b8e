#include "tessera/comm/launcher.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

namespace {

struct Variables {
  const char *launcher, *size, *rank, *machine_size;
};

// The others need no settings of Open MPI, or do not tell how many processes this machine has.
constexpr std::array<Variables, 3> kLaunchers{
    {{"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
     {"PMI", "PMI_SIZE", "PMI_RANK", nullptr},
     {"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", nullptr}}};

/// Reads the number that `name` has in the environment; `otherwise` if it has none.
std::int64_t number(const std::vector<std::string>& environment, std::string_view name, std::int64_t otherwise) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return std::atoll(entry.c_str() + name.size() + 1);
    }
  }
  return otherwise;
}

/// Lets one process report for all; it ends first, because a launcher may kill the others then.
[[noreturn]] void throw_once(const Launch& launch, const Refusal& refusal) {
  if (launch.rank == 0) throw Refusal(refusal);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::_Exit(static_cast<int>(ExitCode::usage));
}

}  // namespace

Launch find_launch(const std::vector<std::string>& environment) {
  Launch found;
  for (const std::string& entry : environment) {
    if (entry.starts_with("PMI") || entry.starts_with("PALS_")) found.has_pmi = true;
  }
  for (const Variables& variables : kLaunchers) {
    const std::int64_t size = number(environment, variables.size, 0);
    if (size < 1) continue;
    found.launcher = variables.launcher;
    found.size = size;
    found.rank = number(environment, variables.rank, 0);
    if (variables.machine_size != nullptr) found.machine_size = number(environment, variables.machine_size, 0);
    break;
  }
  return found;
}

std::vector<EnvironmentVariable> quick_start(const Launch& launch) {
  const bool alone = launch.launcher.empty() && !launch.has_pmi;
  if (!alone && launch.machine_size != launch.size) return {};
  // ob1 sends through shared memory. Its rivals (cm, ucx) look for networks first.
  std::vector<EnvironmentVariable> settings{{"OMPI_MCA_pml", "ob1"}};
  if (!alone) return settings;
  settings.push_back({"OMPI_MCA_ess_singleton_isolated", "1"});
  // All lone ranks of a machine would share one session folder, and fail where two make it at the same moment.
  settings.push_back({"OMPI_MCA_orte_create_session_dirs", "0"});
  return settings;
}

Launch find_launch() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return find_launch(environment);
}

void require_process_manager(const Launch& launch) {
  if (launch.launcher != "Slurm" || launch.size == 1 || launch.has_pmi) return;
  throw_once(launch,
             refusal("Slurm started {} tasks without a process manager, so that MPI would see one in each", launch.size)
                 .use("srun --mpi=pmix (srun --mpi=list shows what there is), mpirun, or srun --ntasks=1"));
}

void require_all_seen(const Launch& launch, std::int64_t seen_by_mpi) {
  if (launch.size == 1 || seen_by_mpi > 1) return;
  throw_once(launch, refusal("{} started {} processes, and MPI sees one in each", launch.launcher, launch.size)
                         .use("the launcher of the MPI library that Tessera was built with ({}), or srun --mpi=pmix "
                              "under Slurm",
                              mpi_version()));
}

void require_wanted_ranks(std::int64_t ranks) {
  const char* const wanted = std::getenv(kRanksVariable);
  if (wanted == nullptr || std::to_string(ranks) == wanted) return;
  throw refusal("{} ranks were started, but {} = {} asks for others", ranks, kRanksVariable, wanted)
      .hint("Give the launcher that number, in a sweep by {{ranks}} in its words");
}

}  // namespace tessera
