#include "tessera/config/validate.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

#include "config/option_table.hpp"
#include "tessera/base/decimal.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/config/recomputation.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

namespace {

void check_resharding(const ReshardAfterForward& reshard) {
  if (reshard.ranks != 1) return;
  throw refuse("shard.reshard_after_forward", 1)
      .because("on one rank the slice that stays is the whole unit")
      .use("false, or a number from 2");
}

void check_used(const Options& options) {
  static const Options defaults;
  for (const auto& unused : unused_options(options)) {
    const auto* row = find_option(unused.name);
    TESSERA_ASSERT(row != nullptr, "unused_options names {}", unused.name);
    const auto value = row->get(options);
    if (options.is_given(unused.name) || value != row->get(defaults)) {
      throw refusal("{} = {} has no effect", unused.name, in_quotes(value))
          .because("{}", unused.reason)
          .hint("Leave it out");
    }
  }
}

/// A family without a preset needs every size for which there is no rule.
void check_sizes(const ModelOptions& model) {
  if (model.family.empty()) return;
  for (const ModelSize& size : kModelSizes) {
    if (size.rule == nullptr && model.*size.field == 0)
      throw refusal("model.{} is missing", size.option)
          .because("model.family = {} has no preset", in_quotes(model.family))
          .hint("Give it");
  }
}

/// Names strategies, for a message.
std::string strategies_that_offload_params() {
  return joined(all_strategies(),
                [](const StrategyRules& rules) { return rules.life != ParameterLife::rest ? rules.name : ""; });
}

void check_offload(const Options& options) {
  if (options.optim.name == OptimizerName::muon && options.shard.offload != Offload::none) {
    throw refusal("shard.offload = {} does not work with optim.name = muon", name_of(options.shard.offload))
        .because("Muon multiplies matrices on the device, and their state would travel there and back")
        .use("shard.offload = none");
  }
  const ShardOptions& shard = options.shard;
  if (shard.offload == Offload::params && rules_of(shard.strategy).life == ParameterLife::rest) {
    throw refusal("shard.offload = params does not work with shard.strategy = {}", rules_of(shard.strategy).name)
        .because("it keeps full parameters on every rank")
        .use("shard.offload = optimizer, or one of {}", strategies_that_offload_params());
  }
  if (options.memory.emulate_copies.on() && options.run.device && traits_of(*options.run.device).is_accelerator) {
    throw refusal("memory.emulate_copies does not work with run.device = {}", name_of(*options.run.device))
        .because("its copies are real")
        .use("memory.emulate_copies = none, or run.device = cpu");
  }
}

void check_replay(const RunOptions& run) {
  if (run.replay_every > 0 && run.check_every == 0) {
    throw refusal("run.replay_every = {} needs run.check_every, but run.check_every = 0", run.replay_every)
        .because("what a replay finds is worth little where checkpoints are not checked")
        .use("run.check_every = {}, for example", run.replay_every);
  }
  if (run.replay_every > 0 && run.device && !is_deterministic(run)) {
    throw refusal("run.replay_every = {} does not work with run.deterministic = {}", run.replay_every,
                  spelling(run.deterministic))
        .because("two GPUs then make different bits without being wrong")
        .use("run.deterministic = true");
  }
}

void check_ranges(const Options& options) {
  const auto& optim = options.optim;
  if (optim.min_lr > optim.lr) {
    throw refusal("optim.min_lr = {} is above optim.lr = {}, from which the rate falls to it", optim.min_lr, optim.lr)
        .use("0 to {}", optim.lr);
  }
  check_replay(options.run);
  if (options.train.epochs == 0.0 && options.train.tokens == 0) validate_for_steps(options, options.train.steps);
  require_documents_apart(options.data);
  if (options.checkpoint.every == kAutomaticCount && options.checkpoint.keep_every > 0) {
    throw refuse("checkpoint.keep_every", options.checkpoint.keep_every)
        .because("checkpoint.every = auto makes checkpoints at any steps")
        .hint("Give checkpoint.every, a number of steps");
  }
  if (options.data.source.empty()) {
    throw refusal("data.source is empty, so there is nothing to train on")
        .use("{}", find_option("data.source")->allowed);
  }
  if (options.train.epochs > 0 && options.train.tokens == 0 && is_mixture(options.data)) {
    throw refuse("train.epochs", options.train.epochs)
        .because("each source of the mixture in data.source has epochs of its own")
        .use("train.tokens or train.steps");
  }
  if (options.run.dir.empty() && (options.run.name.empty() || options.run.name.find('/') != std::string::npos ||
                                  options.run.name == "." || options.run.name == "..")) {
    throw refuse("run.name", in_quotes(options.run.name))
        .because("it names the folder runs/NAME")
        .use("a name without /, or set run.dir");
  }
}

}  // namespace

void require_documents_apart(const DataOptions& data) {
  if (!packs_documents(data) || data.document_mask != Tristate::no) return;
  throw refusal("data.packing = documents does not work with data.document_mask = false")
      .because("documents of one sample would attend to each other")
      .use("true or auto");
}

void validate(const Options& options) {
  if (options.checkpoint.keep_near.empty())
    throw refusal("checkpoint.keep_near is empty").use("none, auto, or a folder on each node");
  check_used(options);
  check_resharding(options.shard.reshard_after_forward);
  check_sizes(options.model);
  check_ranges(options);
  check_offload(options);
  allowed_changes(options.checkpoint);
  validation_sources(options.data.val_source);
  if (options.memory.checkpoint != ActivationCheckpointing::fit) recomputation_of(options.memory);
}

std::int64_t decay_steps(const OptimOptions& options, std::int64_t steps) {
  return decimal_product(options.decay_fraction, steps)->whole;  // at most `steps`
}

std::int64_t common_multiple(std::int64_t a, std::int64_t b) {
  const std::int64_t times = b / std::gcd(a, b);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return a > most / times ? most : a * times;
}

namespace {

/// A checkpoint is judged by the evaluation of its own step, so some step before the last must have both.
void validate_best(const Options& options, std::int64_t steps, const std::string& origin) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.keep_best == 0) return;
  const auto refuse_best = [&](const std::string& why, const char* what_to_do) {
    throw refuse("checkpoint.keep_best", checkpoint.keep_best).because("{}", why).hint("{}", what_to_do);
  };
  if (checkpoint.every <= 0)
    refuse_best(fmt::format("checkpoint.every = {} makes no checkpoint at the steps of evaluations",
                            count_or_auto_text(checkpoint.every)),
                "Give checkpoint.every, a number of steps");
  if (options.train.eval_every == 0)
    refuse_best("train.eval_every = 0 evaluates only after the last step", "Give train.eval_every, a number of steps");
  const std::int64_t both = common_multiple(checkpoint.every, options.train.eval_every);
  if (both <= steps) return;
  refuse_best(
      fmt::format("checkpoint.every = {} and train.eval_every = {} first meet at step {}, after train.steps = {}{}",
                  checkpoint.every, options.train.eval_every, both, steps, origin),
      "Make one a multiple of the other");
}

}  // namespace

void validate_for_steps(const Options& options, std::int64_t steps, std::int64_t schedule_steps) {
  const auto& optim = options.optim;
  if (schedule_steps == 0) schedule_steps = steps;
  std::string origin;
  if (options.train.epochs > 0.0) origin = fmt::format(" (train.epochs = {})", options.train.epochs);
  if (options.train.tokens > 0) origin = fmt::format(" (train.tokens = {})", options.train.tokens);
  if (optim.warmup_steps > schedule_steps) {
    throw refusal("optim.warmup_steps = {} is more than train.steps = {}{}", optim.warmup_steps, schedule_steps, origin)
        .use("0 to {}", schedule_steps);
  }
  const auto constant = schedule_steps - decay_steps(optim, schedule_steps);
  if (optim.schedule == LearningRateSchedule::wsd && optim.warmup_steps > constant) {
    throw refusal("optim.warmup_steps = {} reaches into the decay, which takes optim.decay_fraction = {} of {} steps{}",
                  optim.warmup_steps, optim.decay_fraction, schedule_steps, origin)
        .use("0 to {}", constant);
  }
  validate_best(options, steps, origin);
  if (options.run.dump > steps) {
    throw refusal("run.dump = {} is after the last step, because train.steps = {}{}", options.run.dump, steps, origin)
        .use("0 to {}", steps);
  }
  if (const StepRange& trace = options.run.trace; trace.last > steps) {
    throw refusal("run.trace = {}:{} ends after the last step, because train.steps = {}{}", trace.first, trace.last,
                  steps, origin)
        .use("steps from 1 to {}", steps);
  }
}

std::vector<std::string> allowed_changes(const CheckpointOptions& options) {
  static constexpr std::string_view known[] = {"data", "seq_len", "global_batch", "seed", "order", "moments"};
  std::vector<std::string> names;
  std::istringstream list(options.allow);
  for (std::string name; std::getline(list, name, ',');) {
    std::erase(name, ' ');
    if (std::ranges::find(known, name) == std::end(known)) {
      throw refusal("checkpoint.allow = {} lists {}, which is not an allowed value", options.allow, in_quotes(name))
          .use("a list of data, seq_len, global_batch, seed, order, moments");
    }
    names.push_back(name);
  }
  return names;
}

std::int64_t accumulation_of(const TrainOptions& options, std::int64_t world) {
  if (options.global_batch == 0) return options.accumulation;
  const std::int64_t together = world * options.micro_batch;
  if (options.global_batch % together == 0) return options.global_batch / together;
  const std::int64_t below = options.global_batch / together * together;
  throw refusal(
      "train.global_batch = {} is not a multiple of the {} samples that {} with train.micro_batch = {} run at a time",
      options.global_batch, together, counted(world, "rank"), options.micro_batch)
      .use("{}{}", below > 0 ? fmt::format("{} or ", below) : "", below + together);
}

void validate_for_world(const Options& options, std::int64_t world, std::int64_t ranks_per_node) {
  if (options.grid.ranks_per_node > 0) ranks_per_node = options.grid.ranks_per_node;
  const ShardOptions& shard = options.shard;
  grid_for(shard.strategy, world, ranks_per_node, shard.group_size, shard.reshard_after_forward.ranks);
  accumulation_of(options.train, world);
}

}  // namespace tessera
