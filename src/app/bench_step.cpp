#include "tessera/app/bench_step.hpp"

#include <algorithm>

#include "app/step_table.hpp"
#include "tessera/app/prepare.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/engine/device_choice.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

/// Bytes in use: by this process, its part of what it shares; on a GPU of that GPU, by whomever.
std::int64_t used_memory(RankContext& context, const Options& options) {
  if (options.run.device != DeviceChoice::cuda) return proportional_set_size();
  const auto device = open_device(context, DeviceKind::cuda, options.run.share_gpu);
  return device->total_memory() - device->free_memory();
}

}  // namespace

int run_bench_step(World& world, const Options& options) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = settle_grid(world, options);
  StepBench bench(world, options, machine);
  log.info(bench.account());
  log.info(bench.measure());
  return 0;
}

int run_bench_memory(World& world, const Options& options) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = settle_grid(world, options);
  const PreparedRun prepared(world, options, machine);
  const std::int64_t before = used_memory(world, options);
  const auto session = prepared.open(world, options);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(2, options.bench.warmup); ++i) session->train_step();
  world.control().barrier();  // all ranks have touched what they share
  const std::int64_t after = used_memory(world, options);
  const std::vector<std::string> all = world.control().gather(fmt::format("{} {}", before, after));
  if (world.rank() != 0) return 0;
  const std::int64_t planned = prepared.planned().plan.total();
  log.info(
      fmt::format("{:>4}  {:>12}  {:>12}  {:>12}  {:>10}", "rank", "at start", "planned", "measured", "difference"));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto space = all[rank].find(' ');
    const std::int64_t start = std::stoll(all[rank].substr(0, space)),
                       grown = std::stoll(all[rank].substr(space)) - start;
    log.info(fmt::format("{:>4}  {:>12}  {:>12}  {:>12}  {:>10}", rank, format_bytes(start), format_bytes(planned),
                         format_bytes(grown),
                         format_percent(static_cast<double>(grown - planned) / static_cast<double>(planned))));
  }
  return 0;
}

}  // namespace tessera
