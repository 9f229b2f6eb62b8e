#include "tessera/bench/step.hpp"

#include <algorithm>

#include "bench/output.hpp"
#include "bench/step_table.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/training/prepare.hpp"

namespace tessera {

namespace {

/// Reports the memory of each rank, as text and as a table.
BenchResult memory_result(const std::vector<std::string>& ranks, std::int64_t planned) {
  BenchResult result;
  result.text =
      fmt::format("{:>4}  {:>12}  {:>12}  {:>12}  {:>10}", "rank", "at start", "planned", "measured", "difference");
  std::vector<std::int64_t> numbers, at_start, measured;
  std::vector<double> differences;
  for (const std::string& rank : ranks) {
    const auto space = rank.find(' ');
    at_start.push_back(std::stoll(rank.substr(0, space)));
    measured.push_back(std::stoll(rank.substr(space)) - at_start.back());
    differences.push_back(static_cast<double>(measured.back() - planned) / static_cast<double>(planned));
    numbers.push_back(static_cast<std::int64_t>(numbers.size()));
    result.text +=
        fmt::format("\n{:>4}  {:>12}  {:>12}  {:>12}  {:>10}", numbers.back(), format_bytes(at_start.back()),
                    format_bytes(planned), format_bytes(measured.back()), format_percent(differences.back()));
  }
  result.tables = {{"memory",
                    "bytes in use by each rank before its session, planned for it, and grown by after training steps; "
                    "difference: (measured - planned) / planned",
                    {{"rank", "1", numbers},
                     {"at_start", "B", at_start},
                     {"planned", "B", std::vector<std::int64_t>(ranks.size(), planned)},
                     {"measured", "B", measured},
                     {"difference", "1", differences}}}};
  return result;
}

}  // namespace

int run_bench_step(World& world, const Options& options, const Invocation& invocation) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = resolve_grid(world, options);
  BenchOutput output(world, options, invocation);
  StepBench bench(world, options, machine);
  log.info(bench.account());
  output.write(bench.measure());
  return 0;
}

int run_bench_memory(World& world, const Options& options, const Invocation& invocation) {
  const MachineShape machine = resolve_grid(world, options);
  BenchOutput output(world, options, invocation);
  const PreparedRun prepared(world, options, machine);
  const Backend& backend = backend_of(options);
  const std::int64_t before = backend.used_memory(world, options.run.share_gpu);
  const auto session = prepared.open(world, options);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(2, options.bench.warmup); ++i) session->train_step();
  world.control().barrier();  // all ranks have touched their shared memory
  const std::int64_t after = backend.used_memory(world, options.run.share_gpu);
  const std::vector<std::string> all = world.control().gather(fmt::format("{} {}", before, after));
  BenchResult result = memory_result(all, prepared.planned().plan.total());
  result.gpu = gpu_facts(*session->resources().device);
  result.kernels = session->resources().description;
  output.write(result);
  return 0;
}

}  // namespace tessera
