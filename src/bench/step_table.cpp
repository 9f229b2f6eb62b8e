#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/power_meter.hpp"
#include "bench/tables.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/quantile.hpp"
#include "tessera/record/account.hpp"
#include "tessera/record/prediction.hpp"
#include "tessera/simulate/flops.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

struct Measured {
  std::vector<double> seconds;
  std::vector<TimedStep> timed;  ///< on a GPU perhaps a step of the warm-up
};

/// Returns the part of the world's ranks that use this rank's device.
double share_of_device(RankContext& context, const Device& device) {
  const std::vector<std::string> all = context.control().all_gather(device.identity());
  return static_cast<double>(std::ranges::count(all, device.identity())) / static_cast<double>(all.size());
}

/// `meter` gets the tokens that its device computes, which is this share of all.
Measured measure_steps(TrainingSession& session, const BenchOptions& options, PowerMeter& meter, double share) {
  Measured measured;
  for (std::int64_t i = -options.warmup; i < options.steps; ++i) {
    if (i == 0) meter.begin();
    const auto start = Clock::now();
    const StepResult result = session.train_step();
    const double seconds = seconds_since(start);
    const StepTimeTotals times = session.player().times().take();
    if (i >= 0 && !result.finite)
      throw NumericalError("a measured step has loss {}. Use a lower optim.lr.", result.loss);
    if (i >= 0) measured.seconds.push_back(seconds), meter.sample();
    if (!times.measured) continue;
    if (i <= 0) measured.timed.clear();  // the last of the warm-up's, or all others
    measured.timed.push_back({seconds, times});
  }
  meter.end(share * static_cast<double>(options.steps * session.global_tokens()));
  return measured;
}

/// The time of timed steps: seconds per step by category, and their share.
struct TimeShares {
  std::vector<std::string> category;
  std::vector<double> seconds, share;
  double rest = 0;  ///< share
};

TimeShares time_shares(const Measured& measured) {
  double total = 1e-12;
  for (const TimedStep& step : measured.timed) total += step.seconds;
  TimeShares shares;
  double known = 0;
  for (std::size_t c = 0; c < kTimeCategories; ++c) {
    double seconds = 0;
    for (const TimedStep& step : measured.timed) seconds += step.times.seconds(static_cast<TimeCategory>(c));
    known += seconds;
    shares.category.emplace_back(name_of(static_cast<TimeCategory>(c)));
    shares.seconds.push_back(seconds / static_cast<double>(measured.timed.size()));
    shares.share.push_back(seconds / total);
  }
  shares.rest = std::max(0.0, 1 - known / total);
  return shares;
}

std::string text_of(const TimeShares& shares) {
  std::string text;
  for (std::size_t c = 0; c < shares.category.size(); ++c) {
    if (shares.seconds[c] > 0)
      text += fmt::format("  {:<24}{:>8}  {:>10} a step\n", shares.category[c], format_percent(shares.share[c]),
                          format_seconds(shares.seconds[c]));
  }
  return text + fmt::format("  {:<24}{:>8}\n", "rest", format_percent(shares.rest));
}

/// Returns the step and its categories with their predictions, for bench.output.
Table prediction_table(const RunPrediction& prediction, const StepMedians& medians) {
  const std::vector<PredictedTime> times = compared_times(prediction.step, medians);
  return {"prediction",
          fmt::format("of rank 0, medians of {} steps; predicted with {} (xxh3:{}); uncertainty: relative",
                      medians.steps, prediction.file, prediction.hash),
          {column("time", "", times, &PredictedTime::name), column("predicted", "s", times, &PredictedTime::predicted),
           column("measured", "s", times, &PredictedTime::measured),
           column("uncertainty", "1", times, &PredictedTime::uncertainty)}};
}

/// FLOP/s of matmuls.
struct MatmulCeiling {
  double best = 0;
  double held = 0;  ///< NaN on cores
};

/// Compares a rank's FLOP/s, counted both ways, with the matmul rate of this machine.
std::string rate_text(const StepSchedule& schedule, double tokens_per_rank_second, const MatmulCeiling& ceiling,
                      double datasheet) {
  const ModelParts& model = schedule.model;
  const double counted = matmul_flops_per_token(model);
  const double formula = published_flops_per_token(model);
  const std::string of_peak = datasheet > 0 ? fmt::format("; {} of the datasheet's {}",
                                                          format_percent(formula * tokens_per_rank_second / datasheet),
                                                          flop_rate_text(datasheet))
                                            : "";
  const double best = ceiling.best, rate = counted * tokens_per_rank_second;
  const std::string of_held = std::isnan(ceiling.held) ? ""
                                                       : fmt::format(", {} when held: {}", flop_rate_text(ceiling.held),
                                                                     format_percent(rate / ceiling.held));
  return fmt::format(
      "rate       {} a rank at the model's {:.4g} GFLOP a token; matmuls ({}) reach {} here at best: {}{}\n"
      "MFU        6N + 12 x heads' width x keys seen in each layer = {:.4g} GFLOP a token: {} a rank, {} of the "
      "matmuls' best{}",
      flop_rate_text(rate), counted * 1e-9, name_of(schedule.policy.compute), flop_rate_text(best),
      format_percent(rate / best), of_held, formula * 1e-9, flop_rate_text(formula * tokens_per_rank_second),
      format_percent(formula * tokens_per_rank_second / best), of_peak);
}

/// Returns the best rate of a few matmuls and the sustained rate, on all ranks at once as in a step.
MatmulCeiling measured_ceiling(const Resources& resources, DType compute, const RateSizes& sizes) {
  Device& device = *resources.device;
  const auto stream = device.make_caller_stream("bench");
  Ceiling matmul = matmul_ceiling(device, *stream, resources.compute->kernels(Queue::compute), compute, sizes.matmuls);
  for (int i = 0; i < 5; ++i) matmul.sample();
  const double best = matmul.best();
  return {best, matmul.held(sizes.held_seconds)};
}

}  // namespace

StepBench::StepBench(RankContext& context, const Options& options, const MachineShape& machine)
    : context_(context),
      run_(options, {Purpose::bench, context, machine}),
      prediction_(context.rank() == 0 ? predict_run(run_.planned, with_threads(run_.options, run_.machine))
                                      : std::nullopt),
      session_(open_session(context, run_)) {}

std::string StepBench::account() const {
  return account_before(run_.options, run_.planned, *run_.data, run_.length, session_->resources(), session_->player(),
                        run_.machine) +
         (prediction_ ? "\n" + describe(*prediction_) : "");
}

BenchResult StepBench::measure(const RateSizes& sizes) {
  const Device& device = *session_->resources().device;
  PowerMeter meter(device);
  const Measured measured = measure_steps(*session_, run_.options.bench, meter, share_of_device(context_, device));
  context_.control().barrier();
  const StepSchedule& schedule = run_.planned.schedule;
  const MatmulCeiling ceiling = measured_ceiling(session_->resources(), schedule.policy.compute, sizes);
  const double datasheet = datasheet_rate(session_->resources().device->model(), run_.options.precision);
  const double median = tessera::median(measured.seconds);
  const double tokens = static_cast<double>(session_->global_tokens()) / median;
  BenchResult result;
  result.gpu = gpu_facts(*session_->resources().device);
  result.kernels = session_->resources().description;
  result.text =
      fmt::format("step       median {} (quartiles {} to {}, {} steps after {}), {} tokens/s\n", format_seconds(median),
                  format_seconds(quantile(measured.seconds, 0.25)), format_seconds(quantile(measured.seconds, 0.75)),
                  run_.options.bench.steps, run_.options.bench.warmup, format_rate(tokens));
  const double of_rank = tokens / static_cast<double>(context_.size());
  result.text += rate_text(schedule, of_rank, ceiling, datasheet) + meter.text();
  result.tables = {{"steps", "every measured step on rank 0", {{"seconds", "s", measured.seconds}}},
                   {"rate",
                    "of the median step; FLOPs a token by 6N + 12 x heads' width x keys seen in each layer, and by the "
                    "model's matmuls; product: "
                    "what matmuls reach here at best on a rank, product_held: when held for two seconds; clock, power, "
                    "tokens_per_joule: of "
                    "rank 0's GPU over all measured steps",
                    {{"seconds", "s", std::vector{median}},
                     {"tokens_per_second", "1/s", std::vector{tokens}},
                     {"flops_per_token_6n", "FLOP", std::vector{published_flops_per_token(schedule.model)}},
                     {"flops_per_token", "FLOP", std::vector{matmul_flops_per_token(schedule.model)}},
                     {"product", "FLOP/s", std::vector{ceiling.best}},
                     {"product_held", "FLOP/s", std::vector{ceiling.held}},
                     {"product_by_datasheet", "FLOP/s", std::vector{datasheet > 0 ? datasheet : std::nan("")}}}}};
  for (auto& column : meter.columns()) result.tables.back().columns.push_back(std::move(column));
  if (prediction_) {
    const StepMedians medians = medians_of(measured.seconds, measured.timed);
    result.text += "\n" + comparison(*prediction_, medians);
    result.tables.push_back(prediction_table(*prediction_, medians));
  }
  if (measured.timed.empty()) {
    result.text += "\ntimes of operations are not known: all steps were replayed";
    return result;
  }
  const TimeShares shares = time_shares(measured);
  result.text += fmt::format("\ntime of rank {}, of {} steps played operation by operation\n", context_.rank(),
                             measured.timed.size()) +
                 text_of(shares);
  result.tables.push_back(
      {"time",
       fmt::format("of rank 0, mean of {} timed steps", measured.timed.size()),
       {{"category", "", shares.category}, {"seconds", "s", shares.seconds}, {"share", "1", shares.share}}});
  return result;
}

}  // namespace tessera
