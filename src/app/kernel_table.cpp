#include "app/kernel_table.hpp"

#include <algorithm>

#include "app/kernel_rehearsal.hpp"
#include "app/kernel_times.hpp"
#include "app/machine_rates.hpp"
#include "tessera/app/resolve_model.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/base/format.hpp"
#include "tessera/schedule/build.hpp"

namespace tessera {

namespace {

struct Rates {
  double product = 0, copy = 0;
};

StepSchedule schedule_of(const Options& options, std::int64_t world, std::int64_t ranks_per_node) {
  const Architecture architecture = resolve_architecture(options.model);
  const ModelParts model =
      declare_parts(architecture, options.train.micro_batch, sequence_length(options, architecture),
                    options.precision.compute, options.precision.reduce);
  const GridShape grid = grid_for(options.shard.strategy, world, ranks_per_node, options.shard.group_size);
  return build_schedule(model, grid, policy_from(options));
}

std::vector<KernelRow> measure(RankContext& context, const StepSchedule& schedule, const Options& options,
                               Kernels& kernels, ProductRate& peak) {
  const KernelWork work = kernel_work(schedule);
  KernelRehearsal rehearsal(schedule, work, options, kernels);
  KernelTimes times;
  const auto timed = make_timed_kernels(kernels, times);
  for (std::int64_t i = -options.bench.warmup; i < options.bench.steps; ++i) {
    if (i == 0) times.clear();
    context.control().barrier();  // ranks of a machine share its memory and caches, as in a step
    peak.sample();
    times.start_repetition();
    for (const PartWork& one : work.parts) times.set_count(one.count), rehearsal.play(*timed, one);
    for (const FlatWork& one : work.flat) times.set_count(one.count), rehearsal.play(*timed, one);
  }
  return times.rows();
}

struct Sum {
  double seconds = 0, flops = 0;
};

Sum sum_of(const std::vector<KernelRow>& rows, bool (*wanted)(KernelGroup)) {
  Sum sum;
  for (const KernelRow& row : rows) {
    if (wanted(row.group)) sum.seconds += row.seconds, sum.flops += row.flops;
  }
  return sum;
}

bool is_product(KernelGroup group) { return group != KernelGroup::other; }

std::string text_of(const KernelRow& row, double step, const Rates& rates) {
  const bool product = is_product(row.group);
  const double rate = (product ? row.flops : row.bytes) / row.seconds;
  return fmt::format("{:<20}{:<38}{:>7.0f}{:>10}{:>10}{:>7}{:>9.1f} {:<8}{:>6}\n", row.name, row.shape, row.calls,
                     format_seconds(row.seconds / row.calls), format_seconds(row.seconds),
                     format_percent(row.seconds / step), rate * 1e-9, product ? "GFLOP/s" : "GB/s",
                     format_percent(rate / (product ? rates.product : rates.copy)));
}

std::string sum_text(const char* name, const Sum& sum, double step, const Rates& rates) {
  std::string text = fmt::format("{:<20}{:>6} of the kernels' time", name, format_percent(sum.seconds / step));
  if (sum.flops > 0) {
    text += fmt::format(", {:.1f} GFLOP/s: {} of the peak", sum.flops / sum.seconds * 1e-9,
                        format_percent(sum.flops / sum.seconds / rates.product));
  }
  return text + "\n";
}

std::string sums_text(const std::vector<KernelRow>& rows, double step, const Rates& rates) {
  const auto part = [&](const char* name, bool (*wanted)(KernelGroup)) {
    return sum_text(name, sum_of(rows, wanted), step, rates);
  };
  const Sum products = sum_of(rows, is_product);
  return part("matrix products", is_product) +                                                //
         part("  linears", [](KernelGroup group) { return group == KernelGroup::linear; }) +  //
         part("  attention", [](KernelGroup group) { return group == KernelGroup::attention; }) +
         part("  head", [](KernelGroup group) { return group == KernelGroup::head; }) +
         part("everything else", [](KernelGroup group) { return !is_product(group); }) +
         sum_text("all kernels", {step, products.flops}, step, rates);
}

}  // namespace

std::string kernel_table(RankContext& context, const Options& options, const MachineShape& machine) {
  const StepSchedule schedule = schedule_of(options, context.size(), context.ranks_per_node());
  const int threads = threads_of(options, machine);
  ThreadPool pool(threads, threads_on_cores(threads, machine));
  const auto kernels = make_cpu_kernels(pool);
  context.control().barrier();
  const double copy = copy_rate(*kernels);
  ProductRate peak(*kernels, schedule.compute);
  const std::vector<KernelRow> rows = measure(context, schedule, options, *kernels, peak);
  const Rates rates{peak.best(), copy};
  double step = 0;
  for (const KernelRow& row : rows) step += row.seconds;
  std::string text = fmt::format(
      "{} x {} threads, {}; {} parameters, micro-batch {} x {} tokens, accumulation {}, {}\n"
      "peak: {:.1f} GFLOP/s in the best of several {} matrix products, {:.1f} GB/s in large copies (read and written), "
      "all ranks at "
      "once\n\n",
      context.size(), pool.threads(), kernels->description(), format_count(schedule.model.parameter_count()),
      schedule.model.batch, schedule.model.sequence, schedule.accumulation, name_of(schedule.strategy),
      rates.product * 1e-9, name_of(schedule.compute), rates.copy * 1e-9);
  text += fmt::format("{:<20}{:<38}{:>7}{:>10}{:>10}{:>7}{:>9} {:<8}{:>6}\n", "kernel", "shape", "calls", "a call",
                      "a step", "share", "rate", "", "peak");
  for (const KernelRow& row : rows) text += text_of(row, step, rates);
  text += fmt::format("\nkernels of a step on rank {}: {} (median of {} repetitions after {})\n", context.rank(),
                      format_seconds(step), options.bench.steps, options.bench.warmup);
  text += sums_text(rows, step, rates);
  text +=
      "FLOPs are those of matrix products (attention: the visible half), bytes the least traffic; both kinds of "
      "kernels\n"
      "do more than that (gelu, softmax, sums), and small buffers that stay in the caches may pass 100% of a large "
      "copy.";
  return text;
}

}  // namespace tessera
