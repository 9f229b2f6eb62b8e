#include <algorithm>
#include <limits>
#include <memory>

#include "sweep/fake_programs.hpp"
#include "sweep/slurm.hpp"
#include "sweep/sweep_case.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;
using Words = std::vector<std::string>;

namespace {

/// Submits a job, and returns the variables that sbatch sees, one per line, with a line end in front.
std::string seen_by_sbatch() {
  const FakePrograms programs(Scripts{{"sbatch", "env >${0%/*}/env; echo hello; echo '12;cluster'\n"}});
  const TemporaryFolder folder;
  folder.write("site.sh", "export TESSERA_JOBS=here; unset TESSERA_SITE\n");
  CHECK(submit_job(folder.path(), {"job.sbatch"}) == "12");
  return "\n" + read_file(programs.folder() / "env");
}

}  // namespace

TEST_CASE("A job does not get the variables of the job and of the rank in which it is submitted") {
  const Words of_job = {"SLURM_CPUS_PER_TASK", "SLURM_NTASKS", "SLURM_RESTART_COUNT", "SLURM_STEP_ID",
                        "SLURM_EXPORT_ENV",    "PMI_RANK",     "PMIX_NAMESPACE"};
  const Words of_rank = {"OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"};
  const Words of_user = {"SLURM_CONF", "SBATCH_ACCOUNT", "OMPI_MCA_btl_tcp_if_include", "PMIX_MCA_gds"};
  for (int i = 0; i < 4; ++i) {
    const bool in_job = i % 2 == 0, is_rank = i / 2 == 0;
    std::vector<std::unique_ptr<FakeVariable>> set;
    set.push_back(std::make_unique<FakeVariable>("SLURM_JOB_ID", in_job ? "7" : ""));
    set.push_back(std::make_unique<FakeVariable>("OMPI_COMM_WORLD_SIZE", is_rank ? "1" : ""));
    for (const Words& names : {of_job, of_rank, of_user}) {
      for (const std::string& name : names) set.push_back(std::make_unique<FakeVariable>(name, "1"));
    }
    const std::string seen = seen_by_sbatch();
    const auto has = [&](const std::string& name) { return seen.find("\n" + name + "=") != std::string::npos; };
    for (const std::string& name : of_job) CHECK(has(name) == !in_job);
    for (const std::string& name : of_rank) CHECK(has(name) == !is_rank);
    for (const std::string& name : of_user) CHECK(has(name));
    CHECK((has("TESSERA") && has("TESSERA_JOBS")));
  }
}

TEST_CASE("Where sbatch exports not all variables, a job still gets those of the job scripts") {
  const FakeVariable runs("TESSERA_RUNS", "runs"), site("TESSERA_SITE", "not any more");
  for (const auto& [exported, expected] : std::vector<std::pair<std::string, std::string>>{
           {"ALL", "ALL"}, {"ALL,A=1", "ALL,A=1"}, {"NONE", "TESSERA,TESSERA_"}, {"A,B", "A,B,TESSERA,TESSERA_"}}) {
    const FakeVariable set("SBATCH_EXPORT", exported);
    const std::string seen = seen_by_sbatch();
    const std::size_t at = seen.find("\nSBATCH_EXPORT=") + 1;
    const std::string line = seen.substr(at, seen.find('\n', at) - at);
    CHECK_THAT(line, Catch::StartsWith("SBATCH_EXPORT=" + expected));
    const bool has_all = line.find("ALL") != std::string::npos;
    for (const char* const name : {",TESSERA_JOBS", ",TESSERA_RUNS"})
      CHECK((line.find(name) == std::string::npos) == has_all);
    CHECK_THAT(line, !Contains("TESSERA_SITE"));
    CHECK((seen.find("\nSBATCH_GET_USER_ENV=1\n") != std::string::npos) == (exported == "NONE"));
  }
}

TEST_CASE("What sbatch refuses is told by its code") {
  const FakePrograms programs(Scripts{{"sbatch", "exit 3\n"}});
  const TemporaryFolder folder;
  folder.write("site.sh", "");
  CHECK_THROWS_WITH(submit_job(folder.path(), {}), Contains("sbatch refuses with code 3"));
}

TEST_CASE("An array may have one task less than MaxArraySize, if Slurm tells it") {
  for (const auto& [config, expected] : std::vector<std::pair<std::string, std::int64_t>>{
           {"A = 1\nMaxArraySize            = 50\nB = 2\n", 49}, {"", std::numeric_limits<std::int64_t>::max()}}) {
    const FakePrograms programs(Scripts{{"scontrol", "cat <<E\n" + config + "E\n"}});
    CHECK(longest_array() == expected);
  }
  const FakePrograms programs(Scripts{{"scontrol", "echo MaxArraySize = 0\n"}});
  CHECK_THROWS_WITH(longest_array(), Contains("allows no arrays of jobs (MaxArraySize = 0"));
}

TEST_CASE("Launchers get variables that the user has not set, and more of them in a step of srun") {
  for (const std::string step : {"", "0", "12", "4294967290"}) {
    const FakeVariable set("SLURM_STEP_ID", step), ras("OMPI_MCA_ras", ""), own("SLURM_OVERLAP", "0");
    const bool in_step = step == "0" || step == "12";
    CHECK(in_step_of_srun() == in_step);
    const FakeVariable fence("SLURM_PMIX_FENCE", in_step ? "tree" : "");
    const Variables variables = variables_of_launcher();
    const auto has = [&](const std::string& name, const std::string& value) {
      return std::ranges::find(variables, std::pair(name, value)) != variables.end();
    };
    CHECK(has("OMPI_MCA_ras", "^slurm") == in_step);
    CHECK(has("SLURM_PMIX_FENCE", "ring") != in_step);
    for (const auto& [name, value] : variables) CHECK(name != "SLURM_OVERLAP");
  }
}
