#include "tessera/bench/commands.hpp"

#include "bench/calibration.hpp"
#include "bench/result.hpp"
#include "bench/tables.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/mpi_communicator.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/resolve/resolved_run.hpp"

namespace tessera {

namespace {

void write_fresh(FreshFile& file, const std::string& text) {
  SequentialFile writer(file.beside());
  writer.append(text.data(), std::ssize(text));
  writer.finish();
  file.finish();
}

}  // namespace

int run_bench_calibrate(World& world, const Options& given) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  if (given.bench.output.empty())
    throw refusal("bench calibrate has no file for what it measures").hint("Name one with --bench.output=FILE.ini");
  std::optional<FreshFile> file;
  if (world.rank() == 0) file.emplace(given.bench.output);
  const ResolvedRun here(given, {Purpose::machine, world});
  const auto start = std::chrono::steady_clock::now();
  const Cluster cluster =
      calibrate(world, here.options, here.machine, ladder_sizes(device_of(here.options.run), here.machine));
  if (!file) return 0;
  const std::string text = cluster_text(
      cluster, fmt::format("# Prices of {} of {}, all measured at once by `tessera bench calibrate` in {}.\n",
                           counted(world.size(), "rank"), counted(cluster.threads, "thread"),
                           format_seconds(seconds_since(start))));
  write_fresh(*file, text);
  log.info(fmt::format("{} prices of {}\nwritten    {}", cluster.prices.size(), cluster.name, given.bench.output));
  return 0;
}

int run_bench_comm(World& world, const Options& given, const Invocation& invocation) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const ResolvedRun here(given, {Purpose::machine, world});
  const Options& options = here.options;
  if (world.size() == 1) {
    if (!options.bench.output.empty())
      throw refuse("bench.output", options.bench.output)
          .because("bench comm on one rank measures nothing")
          .hint("Start it with mpiexec -n 2 or more");
    log.info(
        "bench comm: one rank has nobody to talk to, so there is nothing to measure. Start it with mpiexec -n 2 or "
        "more.");
    return 0;
  }
  BenchOutput output(world, options, invocation);
  const auto mpi = make_mpi_communicator(world);
  output.write(comm_table(world, options, here.machine, *mpi));
  return 0;
}

int run_bench_kernels(World& world, const Options& given, const Invocation& invocation) {
  ResolveSite site(Purpose::machine, world);
  site.makes_algorithms = true;
  const ResolvedRun here(given, site);
  const Options& options = here.options;
  std::optional<FreshFile> algorithms;
  if (here.machine.algorithm_source == AlgorithmSource::timed && world.rank() == 0)
    algorithms.emplace(options.run.algorithms);
  BenchOutput output(world, options, invocation);
  const BenchResult result = kernel_table(world, options, here.machine);
  output.write(result);
  if (algorithms) {
    write_fresh(*algorithms, result.algorithms);
    Log(0, 1).info(fmt::format("written    {}", options.run.algorithms));
  }
  return 0;
}

int run_bench_step(World& world, const Options& given, const Invocation& invocation) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const ResolvedRun here(given, {Purpose::machine, world});
  const Options& options = here.options;
  BenchOutput output(world, options, invocation);
  StepBench bench(world, options, here.machine);
  log.info(bench.account());
  output.write(bench.measure());
  return 0;
}

}  // namespace tessera
