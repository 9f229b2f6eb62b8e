#include "tessera/app/bench_kernels.hpp"

#include "app/kernel_table.hpp"
#include "tessera/app/prepare.hpp"
#include "tessera/base/log.hpp"

namespace tessera {

int run_bench_kernels(World& world, const Options& options) {
  const MachineShape machine = settle_grid(world, options);
  const std::string table = kernel_table(world, options, machine);
  Log(static_cast<int>(world.rank()), static_cast<int>(world.size())).info(table);
  return 0;
}

}  // namespace tessera
