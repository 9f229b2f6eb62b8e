// train.sample_every: the model writes between two steps, and training does not notice.
#include <catch2/catch.hpp>
#include <mutex>

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
  run_ranks(world, node, [&](RankContext& context) {
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    MachineShape machine;
    machine.poison = true;
    TrainingSession session(context, options, planned, data, machine);
    std::optional<SampleWriter> writer;
    if (options.train.sample_every > 0) writer.emplace(context, session, options, make_byte_tokenizer());
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

Options options_of(const std::vector<std::string>& more) {
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
    const Sampled without = train(options_of(arguments), 2);
    arguments.insert(arguments.end(), {"--train.sample_every=1", "--generate.max_tokens=6", "--generate.prompt=ab"});
    const Sampled with = train(options_of(arguments), 2);
    CHECK(with.losses == without.losses);
    CHECK(with.weights == without.weights);
    REQUIRE(with.texts.size() == 4);
    for (const std::string& text : with.texts) CHECK(text.starts_with("ab"));
  }
}

TEST_CASE("samples are the same on any number of ranks, and change as the model learns") {
  const auto options = [](const char* accumulation) {
    Options o = options_of({"--train.sample_every=1", "--generate.max_tokens=100", "--generate.temperature=2"});
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

TEST_CASE("a prompt that fills the context is refused") {
  CHECK_THROWS_AS(train(options_of({"--train.sample_every=1", "--generate.prompt=abcdefghijkl"}), 1), UsageError);
}
