// Steps that were measured on GPUs, against what is predicted for them: on 2026-11-23 at revision 2916742 at that day's
// prices (H100), on 2026-11-26 at 9267cde (H100), and on 2026-11-27 at 8648f0a, the H100's at the prices of the day
// before and the H200's at that day's. The schedules are today's, for the first with that day's lifetimes of 16-bit
// copies.

#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/engine/operation_log.hpp"
#include "tessera/model/family.hpp"
#include "tessera/simulate/predict.hpp"

using namespace tessera;

namespace {

struct MeasuredStep {
  const char* prices;
  const char* preset;
  std::vector<std::string> options;
  double seconds;
};

const std::vector<MeasuredStep>& measured_steps() {
  const char* const old_h100 = "tests/simulate/prices/h100_2916742.ini";
  const char *const h100 = "inputs/clusters/h100.ini", *const h200 = "inputs/clusters/h200.ini";
  const std::string ordered = "--run.deterministic=true", ddp = "--shard.strategy=ddp", own = "--run.attention=own";
  const std::string recomputed = "--memory.checkpoint=block";
  const std::vector<std::string> small = {ddp, "--train.micro_batch=64"};
  const std::vector<std::string> qwen_16 = {"--train.micro_batch=16", "--train.accumulation=16"};
  const std::vector<std::string> qwen3 = {"--train.micro_batch=8", "--train.seq_len=2048", recomputed};
  const std::vector<std::string> qwen2 = {"--train.micro_batch=32", "--train.accumulation=4", "--shard.strategy=zero2"};
  const std::vector<std::string> medium = {"--train.micro_batch=64", "--train.seq_len=512", "--shard.strategy=zero1"};
  const auto with = [](std::vector<std::string> options, const std::string& one) {
    options.push_back(one);
    return options;
  };
  const auto one_sample = [&](int tokens) -> std::vector<std::string> {
    return {"--train.micro_batch=1", fmt::format("--train.seq_len={}", tokens), recomputed};
  };
  static const std::vector<MeasuredStep> all = {
      {old_h100, "gpt2-124m", {ddp, "--train.micro_batch=64"}, 0.118},
      {old_h100, "gpt2-1558m", {ddp, "--train.micro_batch=16"}, 0.335},
      {old_h100, "qwen2-1.5b", {ddp, "--train.micro_batch=16"}, 0.301},
      {old_h100, "qwen2-1.5b", with(qwen_16, "--shard.strategy=zero3"), 4.89},
      {h100, "gpt2-124m", small, 0.108},
      {h100, "gpt2-124m", with(small, "--optim.name=muon"), 0.117},
      {h100, "gpt2-124m", with(small, own), 0.119},
      {h100, "gpt2-124m", with(with(small, own), ordered), 0.121},
      {h100, "gpt2-124m", with(with(small, own), "--optim.name=muon"), 0.129},
      {h100, "gpt2-124m", with(with(small, own), recomputed), 0.145},
      {h100, "gpt2-124m", {"--train.micro_batch=64", own}, 0.122},
      {h100, "gpt2-124m", {ddp, "--train.micro_batch=128", own}, 0.239},
      {h100, "gpt2-1558m", {ddp, "--train.micro_batch=16"}, 0.313},
      {h100, "gpt2-1558m", {ddp, "--train.micro_batch=16", own}, 0.336},
      {h100, "gpt2-1558m", {ddp, "--train.micro_batch=16", own, ordered}, 0.341},
      {h100, "qwen2-1.5b", {ddp, "--train.micro_batch=16"}, 0.283},
      {h100, "qwen2-1.5b", {ddp, "--train.micro_batch=16", own}, 0.304},
      {h100, "qwen2-1.5b", {ddp, "--train.micro_batch=16", own, ordered}, 0.307},
      {h100, "qwen2-1.5b", {ddp, "--train.micro_batch=32", own}, 0.594},
      {h100, "qwen2-1.5b", {ddp, "--train.micro_batch=16", "--train.accumulation=8", own}, 2.37},
      // Measured too, but not here: Muon at Qwen3 0.6B (predicted 6.2% too slow), and three steps with offload, on
      // another host than that of the prices (predicted 5.3 to 13% too fast).
      {h100, "qwen3-1.7b", qwen3, 0.409},
      {h100, "gpt2-774m", {ddp, "--train.micro_batch=24"}, 0.238},
      {h100, "qwen2-0.5b", qwen2, 0.827},
      {h100, "gpt2-350m", medium, 0.142},
      {h100, "llama-1b", one_sample(16384), 0.426},
      {h100, "qwen2-1.5b", with(qwen_16, ddp), 4.46},
      {h100,
       "qwen2-1.5b",
       {ddp, "--train.micro_batch=32", "--train.accumulation=16", "--memory.keep_activated=false"},  // as fits in 80 GB
       8.83},
      {h200, "qwen3-1.7b", qwen3, 0.403},
      {h200, "gpt2-774m", {ddp, "--train.micro_batch=24"}, 0.233},
      {h200, "qwen2-0.5b", qwen2, 0.798},
      {h200, "qwen3-0.6b", {"--train.micro_batch=8", "--train.seq_len=4096", "--optim.name=muon"}, 0.38},
      {h200, "gpt2-350m", medium, 0.136},
      {h200,
       "llama-1b",
       {"--train.micro_batch=8", "--train.seq_len=2048", "--train.accumulation=2", "--shard.offload=optimizer"},
       0.669},
      {h200, "qwen3-4b", {"--train.micro_batch=2", "--train.seq_len=2048", recomputed, "--shard.offload=params"}, 0.95},
      {h200, "llama-1b", one_sample(16384), 0.422},
      {h200, "qwen3-0.6b", one_sample(32768), 1.28},
      {h200, "qwen3-1.7b", one_sample(32768), 1.7},
      {h200, "llama-8b", {"--train.micro_batch=2", "--train.seq_len=4096", recomputed}, 0.84}};
  return all;
}

struct Predicted {
  PlannedRun run;
  Prediction prediction;
};

Predicted predicted(const MeasuredStep& step) {
  std::vector<std::string> words = {"--run.device=cuda", "--precision.compute=bf16", "--precision.reduce=bf16"};
  words.insert(words.end(), step.options.begin(), step.options.end());
  const auto lacks = [&](const char* option) {
    return std::ranges::none_of(words, [&](const std::string& word) { return word.starts_with(option); });
  };
  for (const char* option : {"--run.deterministic=false", "--shard.strategy=zero3", "--train.seq_len=1024"}) {
    if (lacks(std::string(option, std::string_view(option).find('=')).c_str())) words.emplace_back(option);
  }
  const Options options = parse_arguments(words);
  PlannedRun run = plan_shape(run_shape(options, {preset(step.preset), 1, 1}), {false, 0});
  const std::string file = fmt::format("{}/../../{}", TESSERA_REFERENCE_DIR, step.prices);
  Prediction prediction = predict(run.schedule, run.plan, options, read_cluster(file));
  return {std::move(run), std::move(prediction)};
}

}  // namespace

TEST_CASE("steps of one GPU take what is predicted from their kernels, within 6% each and 3% in the median") {
  std::vector<double> errors;
  for (const MeasuredStep& step : measured_steps()) {
    const double predicted = ::predicted(step).prediction.step_seconds;
    const double error = predicted / step.seconds - 1;
    UNSCOPED_INFO(fmt::format("{} {} [{}]: {:.4g} s, measured {} s, {:+.1f}%", step.prices, step.preset,
                              fmt::join(step.options, " "), predicted, step.seconds, 100 * error));
    errors.push_back(std::abs(error));
    CHECK(std::abs(error) <= 0.06);
  }
  std::ranges::sort(errors);
  CHECK(errors[errors.size() / 2] <= 0.03);
}

TEST_CASE("The classes of those steps that were timed operation by operation are within 15% each") {
  using Category = TimeCategory;
  const char* const old_h100 = "tests/simulate/prices/h100_2916742.ini";
  const std::vector<std::pair<MeasuredStep, std::vector<std::pair<Category, double>>>> measured = {
      {{old_h100, "gpt2-124m", {"--train.micro_batch=64"}, 0.12},
       {{Category::forward, 0.0257}, {Category::backward, 0.0922}, {Category::optimizer, 0.00172}}},
      // The host's part of this one is of a host whose prices nobody measured.
      {{old_h100,
        "llama-8b",
        {"--train.micro_batch=4", "--train.seq_len=4096", "--train.accumulation=2", "--memory.checkpoint=block",
         "--shard.offload=optimizer"},
        5.12},
       {{Category::forward, 0.768}, {Category::recompute, 0.578}, {Category::backward, 1.81}}}};
  for (const auto& [step, classes] : measured) {
    const auto [run, prediction] = predicted(step);
    for (const auto& [category, seconds] : classes) {
      // An operation that is timed alone takes longer by two events and its launch (bench/stream_clock.hpp).
      constexpr double kTiming = 5e-6;
      double time = prediction.timeline.time[static_cast<std::size_t>(category)];
      for (const TimelineSpan& span : prediction.timeline.spans) {
        const Operation& op = run.schedule.operation(span.operation);
        if (span.stream == 0 && category_of(op) == category) time += kTiming;
      }
      const double error = time / seconds - 1;
      INFO(fmt::format("{} {}, {}: {:+.1f}%", step.prices, step.preset, name_of(category), 100 * error));
      CHECK(std::abs(error) <= 0.15);
    }
  }
}
