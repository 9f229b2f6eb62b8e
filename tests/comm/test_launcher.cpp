#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tessera/base/error.hpp"
#include "tessera/comm/launcher.hpp"

using namespace tessera;
using Texts = std::vector<std::string>;

TEST_CASE("a launcher is found by its variables, the innermost first", "[launcher]") {
  const Launch alone = find_launch({"HOME=/root", "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS_X=4"});
  CHECK(alone.launcher.empty());
  CHECK(alone.size == 1);
  CHECK(alone.rank == 0);

  const Launch step = find_launch({"SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=3"});
  CHECK(step.launcher == "Slurm");
  CHECK(step.size == 4);
  CHECK(step.rank == 3);
  CHECK_FALSE(step.has_pmi);

  // A step of one task on each of two nodes, in which mpirun has its daemons.
  const Launch mpirun = find_launch(
      {"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0", "PMIX_RANK=0"});
  CHECK(mpirun.launcher == "Open MPI");
  CHECK(mpirun.size == 1);
  CHECK(mpirun.rank == 0);
  CHECK(mpirun.has_pmi);
}

TEST_CASE("Open MPI is spared what processes of one machine do not need", "[launcher]") {
  const EnvironmentVariable no_network{"OMPI_MCA_pml", "ob1"}, no_daemon{"OMPI_MCA_ess_singleton_isolated", "1"};
  const EnvironmentVariable no_shared_folder{"OMPI_MCA_orte_create_session_dirs", "0"};
  const std::vector<EnvironmentVariable> of_one_alone{no_network, no_daemon, no_shared_folder};
  CHECK(quick_start(find_launch({"HOME=/root"})) == of_one_alone);
  CHECK(quick_start(find_launch({"HOME=/root", "PMIX_MCA_gds=hash"})) == of_one_alone);
  CHECK(quick_start(find_launch({"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"})) == of_one_alone);
  const Launch two = find_launch({"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2"});
  CHECK(two.machine_size == 2);
  CHECK(quick_start(two) == std::vector<EnvironmentVariable>{no_network});
  CHECK(quick_start(find_launch({"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"})).empty());
  // Where the launcher does not tell, a network may be needed.
  CHECK(quick_start(find_launch({"OMPI_COMM_WORLD_SIZE=4"})).empty());
  CHECK(quick_start(find_launch({"PMIX_RANK=0"})).empty());  // a process manager that is not known
}

TEST_CASE("several processes that MPI cannot see, or does not see, are refused", "[launcher]") {
  const Launch first{"Slurm", 0, 4, false};
  CHECK_THROWS_AS(require_process_manager(first), UsageError);
  CHECK_NOTHROW(require_process_manager({"Slurm", 0, 4, true}));
  CHECK_NOTHROW(require_process_manager({"Slurm", 0, 1, false}));
  CHECK_NOTHROW(require_process_manager({"Open MPI", 0, 4, false}));
  const Launch by_pbsdsh = find_launch({"PBS_JOBID=7", "PBS_TASKNUM=2", "PBS_VNODENUM=0"});
  CHECK_FALSE(by_pbsdsh.is_alone());
  CHECK_THROWS_WITH(require_process_manager(by_pbsdsh), Catch::Contains("PBS started this task"));
  CHECK(find_launch({"PBS_JOBID=7", "PBS_TASKNUM=1"}).is_alone());  // the job's own script
  CHECK_NOTHROW(require_process_manager(find_launch({"PBS_TASKNUM=2", "OMPI_COMM_WORLD_SIZE=2"})));

  CHECK_THROWS_AS(require_all_seen(first, 1), UsageError);
  CHECK_NOTHROW(require_all_seen(first, 4));
  CHECK_NOTHROW(require_all_seen({"Slurm", 0, 1, false}, 1));
}

TEST_CASE("one task of Slurm is alone, and MPI does not see that somebody started it", "[launcher]") {
  const Texts launchers = {"SLURM_STEP_NUM_TASKS=", "PMI_SIZE=", "OMPI_COMM_WORLD_SIZE="};
  const Texts hidden = {"PMIX_RANK", "PMIX_SERVER_URI2", "PMI_FD", "SLURM_STEP_ID", "SLURM_NODELIST"};
  const Texts kept = {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "PMIX_MCA_gds", "HOME", "OMPI_MCA_btl"};
  std::mt19937 draw(3);
  for (int i = 0; i < 200; ++i) {
    const std::size_t launcher = draw() % launchers.size(), size = 1 + draw() % 3;
    Texts environment = {launchers[launcher] + std::to_string(size)}, expected;
    for (const Texts& names : {hidden, kept}) {
      for (const std::string& name : names) {
        if (draw() % 2 == 0) continue;
        environment.push_back(name + "=1");
        if (names == hidden) expected.push_back(name);
      }
    }
    if (launcher < 2) expected.push_back(launchers[launcher].substr(0, launchers[launcher].size() - 1));
    std::ranges::shuffle(environment, draw);
    const Launch launch = find_launch(environment);
    CHECK(launch.is_alone() == (size == 1 && launcher < 2));
    Texts names = hidden_variables(launch, environment);
    std::ranges::sort(names), std::ranges::sort(expected);
    CHECK(names == (launch.is_alone() ? expected : Texts()));
  }
}

TEST_CASE("a step is doubtful where only variables speak for it, because sbatch hands them on", "[launcher]") {
  const auto doubtful = [](Texts more) {
    more.insert(more.end(), {"SLURM_JOB_ID=8", "SLURM_STEP_ID=1", "SLURM_PROCID=0"});
    return find_launch(more).doubtful_step;
  };
  CHECK(doubtful({"SLURM_STEP_NUM_TASKS=4"}) == "8.1");
  CHECK(doubtful({"SLURM_STEP_NUM_TASKS=4", "PMIX_NAMESPACE=slurm.pmix.7.1"}) == "8.1");
  CHECK(doubtful({"SLURM_STEP_NUM_TASKS=4", "PMIX_NAMESPACE=slurm.pmix.7.1", "SLURM_HET_SIZE=2"}).empty());
  CHECK(doubtful({"SLURM_STEP_NUM_TASKS=4", "PMIX_NAMESPACE=slurm.pmix.8.1"}).empty());
  CHECK(doubtful({"SLURM_STEP_NUM_TASKS=4", "PMI_RANK=0"}).empty());
  CHECK(doubtful({"SLURM_STEP_NUM_TASKS=1"}).empty());
  CHECK(doubtful({"OMPI_COMM_WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=4"}).empty());
  CHECK(find_launch({"SLURM_STEP_NUM_TASKS=4"}).doubtful_step.empty());
}
