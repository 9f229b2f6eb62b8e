#include "tessera/bench/memory.hpp"

#include "bench/memory_table.hpp"
#include "bench/output.hpp"
#include "tessera/engine/backend.hpp"

namespace tessera {

int run_bench_memory(World& world, const Options& options, const Invocation& invocation) {
  const MachineShape machine = resolve_grid(world, options);
  BenchOutput output(world, options, invocation);
  BenchResult result = memory_table(memory_rows(world, options, machine), device_of(options.run));
  const auto device = backend_of(options).open_device(world, options.run.share_gpu);
  result.gpu = gpu_facts(*device);
  result.kernels = device->description();
  output.write(result);
  return 0;
}

}  // namespace tessera
