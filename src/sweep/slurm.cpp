#include "sweep/slurm.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string_view>

#include "tessera/base/environment.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/installation.hpp"

namespace tessera {

namespace {

/// Where sbatch is told not to export all variables, those that the job scripts read are still needed.
constexpr const char* kCallOfSbatch = R"(source "$0/site.sh" || exit
names=$(compgen -e TESSERA)
names=${names//$'\n'/,}
case ${SBATCH_EXPORT:-ALL} in
  *ALL*) ;;
  NONE) export SBATCH_EXPORT=$names SBATCH_GET_USER_ENV=1 ;;
  *) export SBATCH_EXPORT=$SBATCH_EXPORT,$names ;;
esac
exec sbatch --parsable "$@")";

/// The steps that are not srun's (batch, extern, interactive) have the largest numbers.
constexpr unsigned long kFirstSpecialStep = 0xfffffff0UL;

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

/// Returns whether Slurm, or the launcher of this process, sets the variable to tell about the job, the step or the
/// rank. The others are the user's.
bool is_of_job(std::string_view name) {
  if (starts_with_any(name, {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_PMIX_"})) return false;
  return starts_with_any(name, {"SLURM_", "PMI_", "PMIX_SERVER_", "PMIX_NAMESPACE", "PMIX_RANK", "PALS_"});
}
bool is_of_rank(std::string_view name) {
  return starts_with_any(name, {"OMPI_COMM_", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"});
}

/// Returns the words that start a program without the variables of the job around this process.
std::vector<std::string> outside_of_the_job() {
  const bool in_job = !variable("SLURM_JOB_ID").empty(), is_rank = !variable("OMPI_COMM_WORLD_SIZE").empty();
  std::vector<std::string> words = {"env"};
  for (const std::string& text : all_variables()) {
    const std::string name = text.substr(0, text.find('='));
    if ((in_job && is_of_job(name)) || (is_rank && is_of_rank(name))) words.push_back(fmt::format("--unset={}", name));
  }
  return words;
}

}  // namespace

bool in_step_of_srun() {
  const std::string step = variable("SLURM_STEP_ID");
  return !step.empty() && std::strtoul(step.c_str(), nullptr, 10) < kFirstSpecialStep;
}

Variables variables_of_launcher() {
  Variables out{{"SLURM_PMIX_FENCE", "ring"}};
  if (in_step_of_srun()) {
    out.insert(out.end(),
               {{"SLURM_OVERLAP", "1"}, {"OMPI_MCA_ras", "^slurm"}, {"OMPI_MCA_hwloc_base_binding_policy", "none"}});
  }
  std::erase_if(out, [](const auto& each) { return !variable(each.first.c_str()).empty(); });
  return out;
}

bool cluster_has_gpus() {
  const auto [code, text] = output_of({"sinfo", "--noheader", "--format=%G"});
  return code == 0 && text.find("gpu") != std::string::npos;
}

std::int64_t longest_array() {
  const auto [code, text] = output_of({"scontrol", "show", "config"});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("MaxArraySize")) continue;
    // Indices are below it.
    const std::int64_t size = std::atoll(line.substr(line.find('=') + 1).c_str());
    if (size >= 2) return size - 1;
    throw refusal("this Slurm allows no arrays of jobs (MaxArraySize = {} in scontrol show config)", size)
        .use("sweep.action = run within a job");
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::string submit_job(const std::filesystem::path& jobs, const std::vector<std::string>& words) {
  std::vector<std::string> all = outside_of_the_job();
  all.insert(all.end(), {"bash", "-c", kCallOfSbatch, jobs.string()});
  all.insert(all.end(), words.begin(), words.end());
  const auto [code, text] = output_of(all, {{"TESSERA", own_executable().string()}});
  std::istringstream lines(text);  // site.sh may also print something
  std::string number;
  for (std::string line; std::getline(lines, line);) {
    const std::string start = line.substr(0, line.find(';'));
    if (!start.empty() && start.find_first_not_of("0123456789") == std::string::npos) number = start;
  }
  if (code == 0 && !number.empty()) return number;
  throw refusal("sbatch refuses with code {}, and its words are above", code)
      .hint("Look at what sweep.sbatch and jobs/site.sh give it");
}

bool is_queued(const std::string& job) {
  const auto [code, text] = output_of({"squeue", "--noheader", "--jobs=" + job});
  return code == 0 && !text.empty();
}

std::set<std::string> ended_jobs(const std::set<std::string>& jobs) {
  if (jobs.empty()) return {};
  std::set<std::string> arrays;
  for (const std::string& job : jobs) arrays.insert(job.substr(0, job.find('_')));
  // One that Slurm has forgotten is an error if nothing else is asked for: squeue gets a name twice.
  const std::vector<std::string> words = {"squeue", "--noheader", "--array", "--format=%i",
                                          fmt::format("--jobs={},{}", *arrays.begin(), fmt::join(arrays, ","))};
  const auto [code, text] = output_of(words);
  if (code != 0) return {};
  std::set<std::string> ended = jobs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) ended.erase(line);
  return ended;
}

bool cancel_jobs(const std::vector<std::string>& jobs) {
  std::vector<std::string> words = {"scancel"};
  words.insert(words.end(), jobs.begin(), jobs.end());
  return output_of(words).first == 0;
}

}  // namespace tessera
