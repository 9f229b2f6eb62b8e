// Evaluation by a schedule that does nothing else: the bits of training's own, over strategies and ranks.
#include <catch2/catch.hpp>
#include <mutex>
#include <numeric>

#include "plan_run.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/model/initialize.hpp"
#include "tessera/schedule/verify.hpp"
#include "tessera/training/evaluator.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

Options options_of(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--data.synthetic_tokens=3000",
                                     "--data.val_fraction=0.2",
                                     "--train.seq_len=9",
                                     "--train.micro_batch=4",
                                     "--train.steps=1",
                                     "--run.threads=1",
                                     "--run.timeout=60"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return parse_arguments(arguments);
}

struct Evaluated {
  std::vector<Evaluation> sets;
  double token_losses = 0;  ///< sum over the first micro-batch of rank 0
};

/// Evaluates weights of seed 1 by themselves: on the options' sets, or on all of a text of `whole` tokens.
Evaluated evaluate(const Options& options, Family family, std::int64_t world, std::int64_t ranks_per_node,
                   std::int64_t micro_batches, bool token_losses = false, std::int64_t whole = 0) {
  const Architecture architecture = small_model(family);
  const PlannedRun planned =
      plan_shape(evaluation_shape(options, {architecture, world, ranks_per_node}, options.train.seq_len, token_losses));
  const StepSchedule& schedule = planned.schedule;
  require_verified(schedule, planned.plan);
  Evaluated out;
  std::mutex mutex;
  run_ranks(world, ranks_per_node, [&](RankContext& context) {
    const Backend& backend = backend_of(DeviceKind::cpu);
    Resources resources(backend, context, schedule, planned.plan, resource_settings(options, {}));
    Optimizer optimizer({}, 0);
    PlayerSettings settings;
    settings.poison = true;
    const auto player = backend.make_player(schedule, resources, optimizer, settings);
    set_constants(schedule, resources);
    set_weights(schedule, resources, [&](TensorId tensor, std::int64_t first, std::span<float> values) {
      initialize_slice(schedule.model.tensors[tensor], tensor, 1, first, values);
    });
    player->send_scalars();
    context.control().barrier();
    const Dataset data = open_dataset(options, architecture.vocab, options.train.seq_len);
    Evaluator evaluator(context, schedule, optimizer, *player, architecture.vocab);
    std::vector<NamedSource> named;
    if (whole > 0) named.push_back({"", synthetic_text(whole, architecture.vocab, 5)});
    const std::vector<ValidationSet> all = validation_sets(named, 1, options.train.seq_len, {}, LastTargets::filled);
    std::vector<Evaluation> sets;
    for (const ValidationSet& set : whole > 0 ? all : data.validation())
      sets.push_back(evaluator.evaluate(set, micro_batches));
    const std::lock_guard lock(mutex);
    if (context.rank() == 0) out.sets = sets;
    for (const Value& value : schedule.values) {
      if (value.kind != ValueKind::token_losses || schedule.storage(value.storage).space != MemorySpace::host) continue;
      const auto* losses = reinterpret_cast<const float*>(resources.address(value.storage));
      if (context.rank() == 0) out.token_losses = std::accumulate(losses, losses + value.elements, 0.0);
    }
  });
  return out;
}

}  // namespace

TEST_CASE("A schedule that only evaluates has the bits of training's evaluation under every strategy and world") {
  for (const Family family : {Family::gpt2, Family::qwen2}) {
    const Options options = options_of({});
    const Architecture architecture = small_model(family);
    const PlannedRun planned = plan_run(options, architecture, 1, 1);
    double expected = 0;
    with_sessions(options, planned,
                  [&](RankContext&, TrainingSession& session) { expected = session.evaluate(7).at(0).loss; });
    CHECK(expected > 1);
    for (const StrategyRules& rules : all_strategies()) {
      for (const std::int64_t world : {1, 2, 4}) {
        INFO(name_of(family) << ' ' << rules.name << " on " << world);
        std::vector<std::string> more{fmt::format("--shard.strategy={}", rules.name)};
        if (rules.is_hybrid())
          more.push_back(fmt::format("--shard.group_size={}", std::max<std::int64_t>(1, world / 2)));
        const Evaluated alone = evaluate(options_of(more), family, world, std::max<std::int64_t>(1, world / 2), 7);
        CHECK(alone.sets.at(0).loss == expected);
        CHECK(alone.sets.at(0).tokens == 7 * 4 * 9);
      }
    }
  }
}

TEST_CASE("Every token's loss reaches the host, and they add up to the evaluation's") {
  for (const DType compute : {DType::fp32, DType::bf16}) {
    const Options options = options_of({fmt::format("--precision.compute={}", name_of(compute))});
    for (const std::int64_t world : {1, 2}) {
      // A single micro-batch, of rank 0: the others repeat it and do not count.
      const Evaluated with = evaluate(options, Family::gpt2, world, world, 1, true);
      const Evaluated without = evaluate(options, Family::gpt2, world, world, 1);
      CHECK(with.sets.at(0).loss == without.sets.at(0).loss);
      CHECK(with.token_losses / 36 == Approx(with.sets.at(0).loss).epsilon(1e-6));
    }
  }
}

TEST_CASE("A micro-batch that no window fills counts in part, and 0 means all") {
  const Options options = options_of({});
  const Evaluation all = evaluate(options, Family::gpt2, 1, 1, 0).sets.at(0);
  CHECK(all.available == 66);  // windows of 9 in 600 tokens
  CHECK(all.windows == all.available);
  CHECK(evaluate(options, Family::gpt2, 2, 2, 17).sets.at(0).loss == all.loss);
  const Evaluation part = evaluate(options, Family::gpt2, 1, 1, 16).sets.at(0);
  CHECK((part.windows == 64 && part.loss != all.loss));
  CHECK(all.perplexity() == std::exp(all.loss));
}

TEST_CASE("All of a text is its full windows and the tail, whatever the ranks") {
  const auto loss_of = [](std::int64_t tokens, std::int64_t length, std::int64_t world) {
    const Options options = options_of({fmt::format("--train.seq_len={}", length)});
    const Evaluation one = evaluate(options, Family::gpt2, world, world, 0, false, tokens).sets.at(0);
    CHECK((one.tokens == tokens - 1 && one.left_out == 0));
    return one.loss;
  };
  for (const std::int64_t tokens : {6, 9, 10, 11, 60}) {
    INFO(tokens << " tokens");
    const double one = loss_of(tokens, 9, 1);
    CHECK(loss_of(tokens, 9, 2) == one);
    CHECK(loss_of(tokens, 9, 3) == one);
    // A window that is longer than the text costs what the text costs.
    if (tokens < 10) CHECK(one == Approx(loss_of(tokens, tokens - 1, 1)).epsilon(1e-6));
  }
  // 59 targets in windows of 9: 54 of them are those of 55 tokens, and their mean is known.
  const double with_tail = loss_of(60, 9, 1) * 59, without = loss_of(55, 9, 1) * 54;
  CHECK((with_tail - without > 5 && with_tail - without < 5 * 20));
}

TEST_CASE("An evaluation is told with its perplexity, several with their names") {
  CHECK(describe({{.set = "", .loss = 2.5}}) == "validation loss 2.5000, perplexity 12.18");
  CHECK(describe({{.set = "wiki", .loss = 2}, {.set = "code", .loss = 0.5}}) ==
        "validation loss wiki 2.0000 (perplexity 7.39), code 0.5000 (perplexity 1.65)");
}
