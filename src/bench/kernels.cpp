#include "tessera/bench/kernels.hpp"

#include "bench/kernel_table.hpp"
#include "bench/output.hpp"
#include "tessera/training/prepare.hpp"

namespace tessera {

int run_bench_kernels(World& world, const Options& options, const Invocation& invocation) {
  const MachineShape machine = resolve_grid(world, options);
  BenchOutput output(world, options, invocation);
  output.write(kernel_table(world, options, machine));
  return 0;
}

}  // namespace tessera
