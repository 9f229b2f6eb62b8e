// train.sample_every: the model writes between two steps, and training does not notice.
#include <catch2/catch.hpp>
#include <mutex>

#include "plan_run.hpp"
#include "tessera/data/reader.hpp"
#include "tessera/training/sample_writer.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Sampled {
  std::vector<double> losses;
  std::vector<std::string> texts;
  IndexedVector<TensorId, std::vector<float>> weights;
};

/// Trains on bytes; with samples after every step if the options say so.
Sampled train(const Options& options, std::int64_t world, std::int64_t ranks_per_node = 0) {
  Architecture architecture = small_gpt2();
  architecture.vocab = 256;
  const std::int64_t node = ranks_per_node > 0 ? ranks_per_node : world;
  const PlannedRun planned = plan_run(options, architecture, world, node);
  Sampled out;
  out.weights = empty_tensors(planned.schedule.model);
  std::mutex mutex;
  MachineShape machine;
  machine.poison = true;
  with_sessions(options, planned, machine, [&](RankContext& context, TrainingSession& session) {
    std::optional<SampleWriter> writer;
    if (options.train.sample_every > 0)
      writer.emplace(context, session, options, make_byte_tokenizer(), std::vector<std::int32_t>());
    for (std::int64_t step = 1; step <= session.steps(); ++step) {
      const double loss = session.train_step().loss;
      const TextSample sample = writer ? writer->write() : TextSample();
      const std::lock_guard lock(mutex);
      if (context.rank() != 0) continue;
      out.losses.push_back(loss);
      if (writer) out.texts.push_back(sample.prompt + sample.text);
    }
    const std::lock_guard lock(mutex);
    collect_weights(planned.schedule, session.resources(), out.weights);
  });
  return out;
}

Options sampling_options(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--data.source=synthetic", "--data.synthetic_tokens=6000",
                                     "--train.seq_len=9",       "--train.micro_batch=1",
                                     "--train.steps=4",         "--optim.lr=0.02",
                                     "--train.accumulation=2",  "--run.threads=1",
                                     "--run.timeout=60"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parse_arguments(arguments);
}

}  // namespace

TEST_CASE("samples leave the bits of training alone, under every strategy") {
  for (const StrategyRules& rules : all_strategies()) {
    INFO(rules.name);
    std::vector<std::string> arguments{fmt::format("--shard.strategy={}", rules.name), "--model.dropout=0.1"};
    if (rules.is_hybrid()) arguments.emplace_back("--shard.group_size=1");
    const Sampled without = train(sampling_options(arguments), 2);
    arguments.insert(arguments.end(), {"--train.sample_every=1", "--generate.max_tokens=6", "--generate.prompt=ab"});
    const Sampled with = train(sampling_options(arguments), 2);
    CHECK(with.losses == without.losses);
    CHECK(with.weights == without.weights);
    REQUIRE(with.texts.size() == 4);
    for (const std::string& text : with.texts) CHECK(text.starts_with("ab"));
  }
}

TEST_CASE("samples are the same on any number of ranks, and change as the model learns") {
  const auto options = [](const char* accumulation) {
    Options o = sampling_options({"--train.sample_every=1", "--generate.max_tokens=100", "--generate.temperature=2"});
    o.train.accumulation = std::stoll(accumulation);
    return o;
  };
  const Sampled one = train(options("4"), 1), two = train(options("2"), 2), apart = train(options("2"), 2, 1);
  CHECK(one.texts == two.texts);
  CHECK(one.texts == apart.texts);
  CHECK(one.texts[0] != one.texts[3]);
  // The context holds 12 tokens; the prompt is a line's end.
  for (const std::string& text : one.texts) CHECK(text.starts_with("\n"));
}

TEST_CASE("the loss of an evaluation is that of generation's logits, token by token") {
  for (const Family family : {Family::gpt2, Family::qwen2, Family::llama, Family::qwen3}) {
    for (const std::int64_t world : {1, 2}) {
      INFO(name_of(family) << " on " << world);
      const Options options =
          sampling_options({"--train.sample_every=1", "--data.val_fraction=0.2", "--generate.max_tokens=12"});
      const Architecture architecture = small_model(family);
      const PlannedRun planned = plan_run(options, architecture, world, world);
      double evaluated = 0, generated = 0;
      run_ranks(world, world, [&](RankContext& context) {
        const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
        TrainingSession session(context, options, planned, data);
        for (std::int64_t step = 1; step <= session.steps(); ++step) session.train_step();
        const double loss = session.evaluate(1).at(0).loss;  // of one window
        const ValidationSet& set = data.validation().front();
        std::vector<std::int32_t> row(10), tokens(9), targets(9);
        fill_batch(*set.source, set.samples, architecture.vocab, 0, 1, row, tokens.data(), targets.data());
        Generator generator(session.schedule(), session.resources(), session.player(), {}, architecture.vocab);
        double sum = 0;
        for (std::size_t n = 1; n <= tokens.size(); ++n) {
          std::vector<GenerationPrompt> prompts;
          if (context.rank() == 0) prompts.push_back({0, {tokens.begin(), tokens.begin() + static_cast<int>(n)}});
          generator.run(prompts, [&](std::size_t, std::int32_t) {
            double total = 0;
            for (const float x : generator.logits(0)) total += std::exp(static_cast<double>(x));
            sum += std::log(total) - static_cast<double>(generator.logits(0)[static_cast<std::size_t>(targets[n - 1])]);
            return false;
          });
        }
        if (context.rank() == 0) evaluated = loss, generated = sum / 9;
      });
      CHECK(evaluated > 1);
      CHECK(generated == Approx(evaluated).epsilon(2e-6));  // contract 1
    }
  }
}

TEST_CASE("where logits are not numbers the rank with the prompt says so, and all ranks go on") {
  const Options options = sampling_options({"--train.sample_every=1", "--optim.lr=1e6", "--precision.compute=fp16",
                                            "--run.on_bad_step=skip", "--generate.max_tokens=3"});
  const Architecture architecture = small_model(Family::llama);
  const PlannedRun planned = plan_run(options, architecture, 2, 2);
  with_sessions(options, planned, [&](RankContext& context, TrainingSession& session) {
    SampleWriter writer(context, session, options, make_byte_tokenizer(), {});
    CHECK_NOTHROW(writer.write());
    for (int step = 1; step <= 2; ++step) {
      session.train_step();
      if (context.rank() == 0) CHECK_THROWS_AS(writer.write(), NumericalError);
      if (context.rank() != 0) CHECK_NOTHROW(writer.write());
    }
  });
}

TEST_CASE("a prompt that fills the context is refused") {
  CHECK_THROWS_AS(train(sampling_options({"--train.sample_every=1", "--generate.prompt=abcdefghijkl"}), 1), UsageError);
}
