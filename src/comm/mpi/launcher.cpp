#include "tessera/comm/launcher.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "tessera/base/environment.hpp"
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

/// Returns the value that `name` has in the environment; empty if it has none.
std::string text(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return {};
}

/// Reads it as a number; `otherwise` if there is none.
std::int64_t number(const std::vector<std::string>& environment, std::string_view name, std::int64_t otherwise) {
  const std::string value = text(environment, name);
  return value.empty() ? otherwise : std::atoll(value.c_str());
}

/// PMIX_MCA_... are settings of users.
bool is_of_process_manager(std::string_view entry) {
  return (entry.starts_with("PMI") && !entry.starts_with("PMIX_MCA_")) || entry.starts_with("PALS_");
}

/// Returns whether a process manager confirms that the process belongs to the step of Slurm's variables: by its own
/// variables, unless they name another job. (Jobs of several components have several numbers.)
bool is_confirmed(const std::vector<std::string>& environment, bool has_pmi) {
  const std::string space = text(environment, "PMIX_NAMESPACE"), own = "slurm.pmix.";
  if (!space.starts_with(own) || !text(environment, "SLURM_HET_SIZE").empty()) return has_pmi;
  return space.starts_with(own + text(environment, "SLURM_JOB_ID") + ".");
}

/// Returns whether Slurm says that it has no such step. Without an answer it may have one.
bool is_unknown_to_slurm(const std::string& step) {
  if (step.find_first_not_of("0123456789.") != std::string::npos) return false;
  const auto [said, status] = shell_output("LC_ALL=C timeout -s KILL 20 scontrol show step " + step + " 2>&1");
  return status != 0 && said.find("Job step " + step + " not found") != std::string::npos;
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
  found.has_pmi = std::ranges::any_of(environment, is_of_process_manager);
  for (const Variables& variables : kLaunchers) {
    const std::int64_t size = number(environment, variables.size, 0);
    if (size < 1) continue;
    found.launcher = variables.launcher;
    found.size = size;
    found.rank = number(environment, variables.rank, 0);
    if (variables.machine_size != nullptr) found.machine_size = number(environment, variables.machine_size, 0);
    const std::string job = text(environment, "SLURM_JOB_ID"), step = text(environment, "SLURM_STEP_ID");
    const bool is_step = found.launcher == "Slurm" && size > 1 && !job.empty() && !step.empty();
    if (is_step && !is_confirmed(environment, found.has_pmi)) found.doubtful_step = job + "." + step;
    break;
  }
  // pbsdsh numbers the tasks that it starts in a job, whose script is task 1, but does not say how many there are.
  if (found.launcher.empty() && !found.has_pmi && number(environment, "PBS_TASKNUM", 1) > 1) {
    found.launcher = "PBS";
    found.rank = number(environment, "PBS_VNODENUM", 0);
    found.size = std::max<std::int64_t>(2, found.rank + 1);
  }
  return found;
}

bool Launch::is_alone() const {
  const bool in_shell = size == 1 && (launcher == "Slurm" || launcher == "PMI");
  return in_shell || (launcher.empty() && !has_pmi);
}

std::vector<EnvironmentVariable> quick_start(const Launch& launch) {
  const bool alone = launch.is_alone();
  if (!alone && launch.machine_size != launch.size) return {};
  // ob1 sends through shared memory. Its rivals (cm, ucx) look for networks first.
  std::vector<EnvironmentVariable> settings{{"OMPI_MCA_pml", "ob1"}};
  if (!alone) return settings;
  settings.push_back({"OMPI_MCA_ess_singleton_isolated", "1"});
  // All lone ranks of a machine would share one session folder, and fail where two make it at the same moment.
  settings.push_back({"OMPI_MCA_orte_create_session_dirs", "0"});
  return settings;
}

std::vector<std::string> hidden_variables(const Launch& launch, const std::vector<std::string>& environment) {
  std::vector<std::string> names;
  if (!launch.is_alone()) return names;
  for (const std::string& entry : environment) {
    if (is_of_process_manager(entry) || entry.starts_with("SLURM_STEP") || entry.starts_with("SLURM_NODELIST="))
      names.push_back(entry.substr(0, entry.find('=')));
  }
  return names;
}

void prepare_environment(const Launch& launch) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no threads yet
  for (const std::string& name : hidden_variables(launch, all_variables())) ::unsetenv(name.c_str());
  for (const auto& [name, value] : quick_start(launch)) ::setenv(name.c_str(), value.c_str(), 0);
  // NOLINTEND(concurrency-mt-unsafe)
}

Launch find_launch() { return find_launch(all_variables()); }

Launch confirmed_launch() {
  Launch found = find_launch();
  if (!found.doubtful_step.empty() && is_unknown_to_slurm(found.doubtful_step)) found.rank = 0, found.size = 1;
  return found;
}

void require_process_manager(const Launch& launch) {
  if (launch.launcher == "PBS")
    throw_once(launch,
               refusal("PBS started this task (pbsdsh) without a process manager, so that MPI would see one in each")
                   .use("mpirun or mpiexec of the MPI library that Tessera was built with"));
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
  throw refusal("{} ranks were started, but {} = {} asks for another number", ranks, kRanksVariable, wanted)
      .hint("Start that many; in a sweep write {{ranks}} in sweep.launcher");
}

}  // namespace tessera
