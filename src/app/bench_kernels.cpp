#include "tessera/app/bench_kernels.hpp"

#include "app/bench_output.hpp"
#include "app/kernel_table.hpp"
#include "tessera/app/prepare.hpp"

namespace tessera {

int run_bench_kernels(World& world, const Options& options, const Invocation& invocation) {
  const MachineShape machine = settle_grid(world, options);
  BenchOutput output(world, options, invocation);
  output.write(kernel_table(world, options, machine));
  return 0;
}

}  // namespace tessera
