#include <catch2/catch.hpp>

#include "tessera/base/error.hpp"
#include "tessera/comm/launcher.hpp"

using namespace tessera;

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
  CHECK(quick_start(find_launch({"HOME=/root"})) ==
        std::vector<EnvironmentVariable>{no_network, no_daemon, no_shared_folder});
  const Launch two = find_launch({"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2"});
  CHECK(two.machine_size == 2);
  CHECK(quick_start(two) == std::vector<EnvironmentVariable>{no_network});
  CHECK(quick_start(find_launch({"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"})).empty());
  // Where the launcher does not tell, a network may be needed.
  CHECK(quick_start(find_launch({"OMPI_COMM_WORLD_SIZE=4"})).empty());
  CHECK(quick_start(find_launch({"SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0"})).empty());
  CHECK(quick_start(find_launch({"PMIX_RANK=0"})).empty());  // a process manager that is not known
}

TEST_CASE("several processes that MPI cannot see, or does not see, are refused", "[launcher]") {
  const Launch first{"Slurm", 0, 4, false};
  CHECK_THROWS_AS(require_process_manager(first), UsageError);
  CHECK_NOTHROW(require_process_manager({"Slurm", 0, 4, true}));
  CHECK_NOTHROW(require_process_manager({"Slurm", 0, 1, false}));
  CHECK_NOTHROW(require_process_manager({"Open MPI", 0, 4, false}));

  CHECK_THROWS_AS(require_all_seen(first, 1), UsageError);
  CHECK_NOTHROW(require_all_seen(first, 4));
  CHECK_NOTHROW(require_all_seen({"Slurm", 0, 1, false}, 1));
}
