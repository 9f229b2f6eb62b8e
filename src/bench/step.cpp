#include "tessera/bench/step.hpp"

#include "bench/output.hpp"
#include "bench/step_table.hpp"
#include "tessera/base/log.hpp"
#include "tessera/training/prepare.hpp"

namespace tessera {

int run_bench_step(World& world, const Options& options, const Invocation& invocation) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = resolve_grid(world, options);
  BenchOutput output(world, options, invocation);
  StepBench bench(world, options, machine);
  log.info(bench.account());
  output.write(bench.measure());
  return 0;
}

}  // namespace tessera
