// Steps that were measured on GPUs on 2026-11-23, at revision 2916742, against what is predicted for them at the prices
// of that day's kernels. The schedules are today's, with that day's lifetimes of 16-bit copies.

#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/model/family.hpp"
#include "tessera/simulate/predict.hpp"

using namespace tessera;

namespace {

struct MeasuredStep {
  const char* gpu;
  const char* preset;
  std::vector<std::string> options;
  double seconds;
};

const std::vector<MeasuredStep>& measured_steps() {
  const std::string ordered = "--run.deterministic=true", ddp = "--shard.strategy=ddp";
  const std::vector<std::string> qwen_16 = {"--train.micro_batch=16", "--train.accumulation=16"};
  const auto with = [](std::vector<std::string> options, const std::string& one) {
    options.push_back(one);
    return options;
  };
  static const std::vector<MeasuredStep> all = {
      {"h100", "gpt2-124m", {ddp, "--train.micro_batch=64"}, 0.118},
      {"h100", "gpt2-124m", {ddp, "--train.micro_batch=64", ordered}, 0.131},
      {"h100", "gpt2-1558m", {ddp, "--train.micro_batch=16"}, 0.335},
      {"h100", "gpt2-1558m", {ddp, "--train.micro_batch=16", ordered}, 0.358},
      {"h100", "qwen2-1.5b", {ddp, "--train.micro_batch=16"}, 0.301},
      {"h100", "qwen2-1.5b", {ddp, "--train.micro_batch=16", ordered}, 0.322},
      {"h100", "qwen2-1.5b", with(qwen_16, "--shard.strategy=zero3"), 4.89},
      {"h200", "gpt2-124m", {ddp, "--train.micro_batch=64"}, 0.117},
      {"h200", "gpt2-1558m", {ddp, "--train.micro_batch=16"}, 0.324},
      {"h200", "qwen2-1.5b", {ddp, "--train.micro_batch=16"}, 0.294},
      {"h200", "qwen2-1.5b", {ddp, "--train.micro_batch=32"}, 0.576},
      {"h200", "qwen2-1.5b", {ddp, "--train.micro_batch=16", "--train.accumulation=8"}, 2.32},
      {"h200", "qwen2-1.5b", {"--train.micro_batch=16", "--train.accumulation=8"}, 2.36},
      {"h200", "llama-8b", {"--train.micro_batch=2", "--train.seq_len=4096", "--memory.checkpoint=block"}, 0.88}};
  return all;
}

double predicted_seconds(const MeasuredStep& step) {
  std::vector<std::string> words = {"--run.device=cuda", "--precision.compute=bf16", "--precision.reduce=bf16"};
  words.insert(words.end(), step.options.begin(), step.options.end());
  const auto lacks = [&](const char* option) {
    return std::ranges::none_of(words, [&](const std::string& word) { return word.starts_with(option); });
  };
  for (const char* option : {"--run.deterministic=false", "--shard.strategy=zero3", "--train.seq_len=1024"}) {
    if (lacks(std::string(option, std::string_view(option).find('=')).c_str())) words.emplace_back(option);
  }
  const Options options = parse_arguments(words);
  const PlannedRun run = plan_shape(run_shape(options, preset(step.preset), 1, 1), {false, 0});
  const std::string file = fmt::format("{}/../../inputs/clusters/{}.ini", TESSERA_REFERENCE_DIR, step.gpu);
  return predict(run.schedule, run.plan, options, read_cluster(file)).step_seconds;
}

}  // namespace

TEST_CASE("steps of one GPU take what is predicted from their kernels, within 6% each and 3% in the median") {
  std::vector<double> errors;
  for (const MeasuredStep& step : measured_steps()) {
    const double predicted = predicted_seconds(step);
    const double error = predicted / step.seconds - 1;
    UNSCOPED_INFO(fmt::format("{} {} [{}]: {:.4g} s, measured {} s, {:+.1f}%", step.gpu, step.preset,
                              fmt::join(step.options, " "), predicted, step.seconds, 100 * error));
    errors.push_back(std::abs(error));
    CHECK(std::abs(error) <= 0.06);
  }
  std::ranges::sort(errors);
  CHECK(errors[errors.size() / 2] <= 0.03);
}
