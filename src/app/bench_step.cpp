#include "tessera/app/bench_step.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "app/machine_rates.hpp"
#include "tessera/app/account.hpp"
#include "tessera/app/prepare.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::llround(q * static_cast<double>(values.size() - 1)))];
}

struct Measured {
  std::vector<double> seconds;
  StepTimeTotals times;  ///< summed over the measured steps
};

Measured measure(TrainingSession& session, const BenchOptions& options) {
  Measured measured;
  for (std::int64_t i = 0; i < options.warmup; ++i) session.train_step();
  session.player().times().take();
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const auto start = Clock::now();
    const StepResult& result = session.train_step();
    if (!result.finite) throw NumericalError("a measured step has loss {}: a lower optim.lr", result.loss);
    measured.seconds.push_back(seconds_since(start));
  }
  measured.times = session.player().times().take();
  return measured;
}

std::string time_table(const Measured& measured) {
  const double total = std::max(1e-12, [&] {
    double sum = 0;
    for (const double s : measured.seconds) sum += s;
    return sum;
  }());
  std::string text;
  double known = 0;
  for (std::size_t c = 0; c < kTimeCategories; ++c) {
    const double seconds = measured.times.seconds(static_cast<TimeCategory>(c));
    known += seconds;
    if (seconds > 0)
      text += fmt::format("  {:<24}{:>8}  {:>10} a step\n", name_of(static_cast<TimeCategory>(c)),
                          format_percent(seconds / total),
                          format_seconds(seconds / static_cast<double>(measured.seconds.size())));
  }
  text += fmt::format("  {:<24}{:>8}\n", "rest", format_percent(std::max(0.0, 1 - known / total)));
  return text;
}

}  // namespace

int run_bench_step(World& world, const Options& options) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = settle_grid(world, options);
  const PreparedRun prepared(world, options, machine);
  const auto session = prepared.open(world, options);
  if (world.rank() == 0) log.info(account_before(options, prepared.planned(), prepared.data(), *session, machine));
  const Measured measured = measure(*session, options.bench);
  world.control().barrier();
  ProductRate product(session->resources().kernels(Lane::compute), DType::fp32);
  for (int i = 0; i < 5; ++i) product.sample();  // on all ranks at once, as in a step
  const double peak = product.best();
  if (world.rank() != 0) return 0;
  const double median = quantile(measured.seconds, 0.5);
  const StepSchedule& schedule = prepared.planned().schedule;
  const auto flops = static_cast<double>(schedule.model.training_flops() * schedule.accumulation);
  log.info(fmt::format("step       median {} (quartiles {} to {}, {} steps after {}), {} tokens/s",
                       format_seconds(median), format_seconds(quantile(measured.seconds, 0.25)),
                       format_seconds(quantile(measured.seconds, 0.75)), options.bench.steps, options.bench.warmup,
                       format_rate(static_cast<double>(session->global_tokens()) / median)));
  log.info(fmt::format(
      "rate       {:.0f} GFLOP/s a rank of the model's {:.1f} GFLOP; matrix products reach {:.0f} here at best: {}",
      flops / median * 1e-9, flops * 1e-9, peak * 1e-9, format_percent(flops / median / peak)));
  log.info("time of rank 0\n" + time_table(measured));
  return 0;
}

int run_bench_memory(World& world, const Options& options) {
  const Log log(static_cast<int>(world.rank()), static_cast<int>(world.size()));
  const MachineShape machine = settle_grid(world, options);
  const PreparedRun prepared(world, options, machine);
  const std::int64_t before = proportional_set_size();
  const auto session = prepared.open(world, options);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(2, options.bench.warmup); ++i) session->train_step();
  world.control().barrier();  // all ranks have touched what they share
  const std::int64_t after = proportional_set_size();
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
