#include <cmath>

#include "bench/kernel_player.hpp"
#include "bench/tables.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/bench/timed_algorithms.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/resolve/architecture.hpp"

namespace tessera {

namespace {

struct Rates {
  double matmul = 0, copy = 0;
  double held_matmul = 0, held_copy = 0;  ///< NaN on cores
};

/// The measurements of one run.
struct Measurement {
  std::vector<KernelRow> rows;
  Rates rates;
  double nothing = 0;  ///< seconds that a stretch without work takes
};

StepSchedule schedule_of(const Options& options, std::int64_t world, std::int64_t ranks_per_node, bool evaluates) {
  RunShape shape = run_shape(options, {resolve_architecture(options.model), world, ranks_per_node});
  shape = with_copies_kept(shape, options, [] { return FitLimits(); });
  shape.policy.evaluation = evaluates, shape.policy.snapshot = false;
  shape.policy.generation.reset();
  return plan_shape(shape, kQuickPlan).schedule;
}

/// Plays the step again and again. `before` is done before each time.
template <class Before>
Measurement measure(RankContext& context, const Options& options, KernelPlayer& player, const Before& before) {
  StreamClock& clock = player.clock();
  KernelTimes& times = player.times();
  Measurement measurement;
  for (std::int64_t i = -options.bench.warmup; i < options.bench.steps; ++i) {
    if (i == 0) times.clear();
    context.control().barrier();  // ranks of a machine share its memory and caches, as in a step
    before();
    clock.begin();
    clock.end();
    player.play();
    std::vector<double> seconds = clock.take();
    measurement.nothing = seconds.front();
    seconds.erase(seconds.begin());
    times.finish_repetition(seconds);
  }
  measurement.rows = times.rows();
  return measurement;
}

Measurement measure(RankContext& context, const Options& options, KernelPlayer& player, const RateSizes& sizes) {
  Ceiling matmul = matmul_ceiling(player.device(), player.stream(), player.kernels(), player.schedule().policy.compute,
                                  sizes.matmuls);
  Ceiling copy = copy_ceiling(player.device(), player.stream(), player.kernels(), sizes.copy_bytes);
  // On a GPU these are only enqueued. While the GPU works on them, the host gets ahead, so that no kernel's time
  // includes the time in which the host submits it.
  Measurement measurement = measure(context, options, player, [&] { copy.sample(), matmul.sample(); });
  measurement.rates.matmul = matmul.best(), measurement.rates.copy = copy.best();
  // This comes last, so that the kernels are not measured on a chip that these have heated.
  measurement.rates.held_matmul = matmul.held(sizes.held_seconds),
  measurement.rates.held_copy = copy.held(sizes.held_seconds);
  context.control().barrier();  // no rank frees memory that another still reads
  return measurement;
}

/// Measures the linears of the same step without fp8; none of a step that has no fp8.
std::vector<KernelRow> exact_linears(RankContext& context, Options options, MachineShape machine) {
  if (options.precision.linear != LinearPrecision::fp8) return {};
  options.precision.linear = LinearPrecision::compute;
  machine.algorithms.clear(), machine.algorithm_source = AlgorithmSource::kept;  // they are of other matmuls
  KernelPlayer player(context, options, machine, schedule_of(options, context.size(), context.ranks_per_node(), false));
  std::vector<KernelRow> rows = measure(context, options, player, [] {}).rows;
  std::erase_if(rows, [](const KernelRow& row) { return row.group != KernelGroup::linear; });
  context.control().barrier();
  return rows;
}

struct Sum {
  double seconds = 0, flops = 0;
};

Sum sum_of(const std::vector<KernelRow>& rows, bool (*wanted)(KernelGroup)) {
  Sum sum;
  for (const KernelRow& row : rows) {
    if (wanted(row.group)) sum.seconds += row.seconds, sum.flops += row.cost.flops;
  }
  return sum;
}

bool is_matmul(KernelGroup group) { return group != KernelGroup::other; }

/// Returns whether moving its bytes takes longer than its matmuls, at the measured ceilings.
bool is_memory_bound(const KernelRow& row, const Rates& rates) {
  return row.cost.bytes / rates.copy > row.cost.flops / rates.matmul;
}
double share_of_copy(const KernelRow& row, const Rates& rates) { return row.cost.bytes / row.seconds / rates.copy; }

std::string text_of(const std::vector<KernelRow>& rows, double step, const Rates& rates) {
  TextTable table(
      {"kernel", "shape", ">calls", ">a call", ">a step", ">share", ">bytes", ">GFLOP", ">copy", ">matmul"});
  for (const KernelRow& row : rows) {
    const bool has_matmuls = row.cost.flops > 0;
    table.row({row.name, row.shape, fmt::format("{:.0f}", row.calls), format_seconds(row.seconds / row.calls),
               format_seconds(row.seconds), format_percent(row.seconds / step),
               format_bytes(std::llround(row.cost.bytes / row.calls)),
               has_matmuls ? fmt::format("{:.3g}", row.cost.flops / row.calls * 1e-9) : "-",
               format_percent(share_of_copy(row, rates)),
               has_matmuls ? format_percent(row.cost.flops / row.seconds / rates.matmul) : "-"});
  }
  return table.text();
}

/// The project's target for memory-bound kernels.
constexpr double kWantedShare = 0.8;

std::string slow_text(const std::vector<KernelRow>& rows, const Rates& rates) {
  const std::string slow = joined(rows, [&](const KernelRow& row) {
    const double share = share_of_copy(row, rates);
    if (!is_memory_bound(row, rates) || share >= kWantedShare) return std::string();
    return fmt::format("{}{}{} {}", row.name, row.shape.empty() ? "" : " ", row.shape, format_percent(share));
  });
  return fmt::format("memory-bound and below {} of the copy rate: {}\n", format_percent(kWantedShare),
                     slow.empty() ? "none" : slow);
}

std::string sum_text(const char* name, const Sum& sum, double step, const Rates& rates) {
  std::string text = fmt::format("{:<20}{:>6} of the kernels' time", name, format_percent(sum.seconds / step));
  if (sum.flops > 0) {
    text += fmt::format(", {}: {} of the matmul rate", flop_rate_text(sum.flops / sum.seconds),
                        format_percent(sum.flops / sum.seconds / rates.matmul));
  }
  return text + "\n";
}

std::string sums_text(const std::vector<KernelRow>& rows, double step, const Rates& rates) {
  const auto part = [&](const char* name, bool (*wanted)(KernelGroup)) {
    return sum_text(name, sum_of(rows, wanted), step, rates);
  };
  const Sum matmuls = sum_of(rows, is_matmul);
  return part("matmuls", is_matmul) +                                                         //
         part("  linears", [](KernelGroup group) { return group == KernelGroup::linear; }) +  //
         part("  attention", [](KernelGroup group) { return group == KernelGroup::attention; }) +
         part("  head", [](KernelGroup group) { return group == KernelGroup::head; }) +
         part("everything else", [](KernelGroup group) { return !is_matmul(group); }) +
         sum_text("all kernels", {step, matmuls.flops}, step, rates);
}

/// Returns what fp8 costs and saves; empty where `exact` is.
std::string fp8_text(const std::vector<KernelRow>& rows, const std::vector<KernelRow>& exact, double step,
                     DType compute, const Rates& rates) {
  if (exact.empty()) return "";
  double conversions = 0;
  for (const KernelRow& row : rows) conversions += row.makes_fp8 ? row.seconds : 0;
  const auto is_linear = [](KernelGroup group) { return group == KernelGroup::linear; };
  std::string text = fmt::format("linears {} with fp8, conversions to it {}; in {} linears {}:\n",
                                 format_seconds(sum_of(rows, is_linear).seconds), format_seconds(conversions),
                                 name_of(compute), format_seconds(sum_of(exact, is_linear).seconds));
  text += text_of(exact, step, rates);
  return text;
}

std::string datasheet_text(const Device& device, const PrecisionOptions& precision) {
  const double rate = datasheet_rate(device.model(), precision);
  return rate > 0 ? fmt::format(" of {} by the datasheet", flop_rate_text(rate)) : "";
}

std::string held_text(const Rates& rates) {
  if (std::isnan(rates.held_matmul)) return "";
  return fmt::format("held after the kernels: matmuls {}, copies {:.1f} GB/s\n", flop_rate_text(rates.held_matmul),
                     rates.held_copy * 1e-9);
}

/// Makes the table; NaN if a kernel has no matmuls.
Table kernels_table(const std::vector<KernelRow>& rows, double step, const Rates& rates) {
  const auto numbers = [&](const char* name, const char* unit, auto of) {
    return column(name, unit, rows, [&](const KernelRow& row) -> double { return of(row); });
  };
  using Row = const KernelRow&;
  return {"kernels",
          "kernels of a step on rank 0, in the order of their first call; seconds: of a step; bytes and flops: the "
          "least of a call; copy_share and product_share: of the ceilings in /rates",
          {column("kernel", "", rows, &KernelRow::name), column("shape", "", rows, &KernelRow::shape),
           numbers("calls", "1", [](Row row) { return row.calls; }),
           numbers("call_seconds", "s", [](Row row) { return row.seconds / row.calls; }),
           numbers("seconds", "s", [](Row row) { return row.seconds; }),
           numbers("share", "1", [&](Row row) { return row.seconds / step; }),
           numbers("bytes", "B", [](Row row) { return row.cost.bytes / row.calls; }),
           numbers("flops", "FLOP", [](Row row) { return row.cost.flops / row.calls; }),
           numbers("copy_share", "1", [&](Row row) { return share_of_copy(row, rates); }),
           numbers("product_share", "1", [&](Row row) {
             return row.cost.flops > 0 ? row.cost.flops / row.seconds / rates.matmul : std::nan("");
           })}};
}

/// Makes a table of one row.
Table rates_table(const Rates& rates, double datasheet, double nothing) {
  return {"rates",
          "what this machine reaches in the same run, at best and held for two seconds: matmuls, copies (read and "
          "written); a stretch without work",
          {{"product", "FLOP/s", std::vector{rates.matmul}},
           {"product_held", "FLOP/s", std::vector{rates.held_matmul}},
           {"product_by_datasheet", "FLOP/s", std::vector{datasheet > 0 ? datasheet : std::nan("")}},
           {"copy", "B/s", std::vector{rates.copy}},
           {"copy_held", "B/s", std::vector{rates.held_copy}},
           {"nothing", "s", std::vector{nothing}}}};
}

}  // namespace

std::string timed_algorithms(RankContext& context, const Options& options, const MachineShape& machine) {
  KernelPlayer player(context, options, machine,
                      schedule_of(options, context.size(), context.ranks_per_node(), options.data.has_validation()));
  player.play();
  player.stream().synchronize();
  context.control().barrier();  // no rank frees memory that another still reads
  return player.resources().compute->gemm_algorithms();
}

BenchResult kernel_table(RankContext& context, const Options& options, const MachineShape& machine,
                         const std::optional<RateSizes>& sizes) {
  const bool makes_algorithms = machine.algorithm_source == AlgorithmSource::timed;
  const std::vector<KernelRow> exact = exact_linears(context, options, machine);
  KernelPlayer player(context, options, machine,
                      schedule_of(options, context.size(), context.ranks_per_node(), makes_algorithms));
  const StepSchedule& schedule = player.schedule();
  const Device& device = player.device();
  const Measurement measurement = measure(context, options, player, sizes ? *sizes : rate_sizes(context, device));
  const auto& [rows, rates, nothing] = measurement;
  double step = 0;
  for (const KernelRow& row : rows) step += row.seconds;
  std::string text = fmt::format(
      "ranks: {}, each {}\n"
      "{} parameters, micro-batch {} x {} tokens, accumulation {}, {}, compute {}, reduce {}\n"
      "ceilings, best of {} samples between the kernels, all ranks at once: matmuls {} ({}){}, copies "
      "{:.1f} GB/s (read and written); nothing takes {}\n{}\n",
      context.size(), player.description().text, format_count(schedule.model.parameter_count()), schedule.model.batch,
      schedule.model.sequence, schedule.policy.accumulation, name_of(schedule.policy.strategy),
      name_of(schedule.policy.compute), name_of(schedule.policy.reduce), options.bench.steps + options.bench.warmup,
      flop_rate_text(rates.matmul), name_of(schedule.policy.compute), datasheet_text(device, options.precision),
      rates.copy * 1e-9, format_seconds(nothing), held_text(rates));
  text += text_of(rows, step, rates);
  text += fmt::format("\nkernels of a step on rank {}: {} (median of {} repetitions after {})\n", context.rank(),
                      format_seconds(step), options.bench.steps, options.bench.warmup);
  text += sums_text(rows, step, rates) + slow_text(rows, rates) +
          fp8_text(rows, exact, step, schedule.policy.compute, rates);
  text +=
      "bytes, GFLOP: of a call, the least that it can do (of matmuls alone, of attention the visible half; each\n"
      "input and output once); copy, matmul: their shares of the ceilings. Kernels do more than that (gelu, softmax,\n"
      "sums), and buffers that stay in caches may pass 100% of a large copy: on a GPU a call is repeated.";
  std::vector<Table> tables{kernels_table(rows, step, rates),
                            rates_table(rates, datasheet_rate(device.model(), options.precision), nothing)};
  if (!exact.empty()) tables.push_back(kernels_table(exact, step, rates)), tables.back().name = "linears_without_fp8";
  return {text, std::move(tables), gpu_facts(device), player.description(),
          makes_algorithms ? player.resources().compute->gemm_algorithms() : ""};
}

}  // namespace tessera
