#include "tessera/bench/comm.hpp"

#include "bench/comm_table.hpp"
#include "bench/output.hpp"
#include "tessera/base/log.hpp"
#include "tessera/comm/mpi_communicator.hpp"
#include "tessera/training/prepare.hpp"

namespace tessera {

int run_bench_comm(World& world, const Options& options, const Invocation& invocation) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = resolve_grid(world, options);
  if (world.size() == 1) {
    if (!options.bench.output.empty())
      throw UsageError(
          "bench.output = {} (bench comm of one rank measures nothing): start it with mpiexec -n 2 or more",
          options.bench.output);
    log.info(
        "bench comm: one rank has nobody to talk to, so there is nothing to measure: start it with mpiexec -n 2 or "
        "more");
    return 0;
  }
  BenchOutput output(world, options, invocation);
  const auto mpi = make_mpi_communicator(world);
  output.write(comm_table(world, options, machine, *mpi));
  return 0;
}

}  // namespace tessera
