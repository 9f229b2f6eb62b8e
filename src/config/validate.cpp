#include "tessera/config/validate.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

#include "config/option_table.hpp"
#include "config/value_text.hpp"
#include "tessera/base/decimal.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/recomputation.hpp"
#include "tessera/config/validation_sources.hpp"

namespace tessera {

namespace {

void check_resharding(const ReshardAfterForward& reshard) {
  if (reshard.ranks != 1) return;
  throw UsageError(
      "shard.reshard_after_forward = 1 (over one rank the slice that stays is all of the unit): false, or a number "
      "from 2");
}

void check_used(const Options& options) {
  static const Options defaults;
  for (const auto& unused : unused_options(options)) {
    const auto* row = find_option(unused.name);
    TESSERA_ASSERT(row != nullptr, "unused_options names {}", unused.name);
    const auto value = row->get(options);
    if (options.is_given(unused.name) || value != row->get(defaults)) {
      throw UsageError("{} = {} has no effect ({}): leave it out", unused.name, in_quotes(value), unused.reason);
    }
  }
}

/// A family without a preset needs every size that has no rule of its own.
void check_sizes(const ModelOptions& model) {
  if (model.family.empty()) return;
  for (const ModelSize& size : kModelSizes) {
    if (size.rule == nullptr && model.*size.field == 0)
      throw UsageError("model.{} is missing (model.family = {} has no preset): give it", size.option,
                       in_quotes(model.family));
  }
}

/// Names strategies, for a message.
std::string strategies_that_offload_params() {
  std::string names;
  for (const StrategyRules& rules : all_strategies()) {
    if (rules.life != ParameterLife::rest) names += fmt::format("{}{}", names.empty() ? "" : ", ", rules.name);
  }
  return names;
}

void check_offload(const Options& options) {
  if (options.optim.name == OptimizerName::muon && options.shard.offload != Offload::none) {
    throw UsageError(
        "shard.offload = {} with optim.name = muon (its matrices are multiplied on the device, and their state would "
        "travel there and back): none",
        name_of(options.shard.offload));
  }
  const ShardOptions& shard = options.shard;
  if (shard.offload == Offload::params && rules_of(shard.strategy).life == ParameterLife::rest) {
    throw UsageError(
        "shard.offload = params with shard.strategy = {} (it keeps full parameters for ever): optimizer, or one of {}",
        rules_of(shard.strategy).name, strategies_that_offload_params());
  }
  if (options.memory.emulate_copies.on() && options.run.device && traits_of(*options.run.device).is_accelerator) {
    throw UsageError("memory.emulate_copies with run.device = {} (its copies are real): none, or cpu",
                     name_of(*options.run.device));
  }
  if (shard.offload_fraction.fits && options.plan.memory == 0) {
    throw UsageError(
        "shard.offload_fraction = fit without plan.memory (it is what the rest has to fit into): plan.memory, or a "
        "number from 0 to 1");
  }
}

void check_ranges(const Options& options) {
  const auto& optim = options.optim;
  if (optim.min_lr > optim.lr) {
    throw UsageError("optim.min_lr = {} is above optim.lr = {} (it is where the rate ends): 0 to {}", optim.min_lr,
                     optim.lr, optim.lr);
  }
  if (options.train.epochs == 0.0) validate_for_steps(options, options.train.steps);
  if (options.comm.max_ctas > 0 && options.comm.min_ctas > options.comm.max_ctas) {
    throw UsageError("comm.min_ctas = {} is above comm.max_ctas = {}: 0 to {}", options.comm.min_ctas,
                     options.comm.max_ctas, options.comm.max_ctas);
  }
  if (options.data.document_mask && options.run.attention == AttentionChoice::cudnn) {
    throw UsageError(
        "run.attention = cudnn with data.document_mask = true (cuDNN is given no such masks): own or auto");
  }
  if (options.data.source.empty()) {
    throw UsageError("data.source is empty (there is nothing to train on): {}", find_option("data.source")->allowed);
  }
  if (options.run.dir.empty() && (options.run.name.empty() || options.run.name.find('/') != std::string::npos ||
                                  options.run.name == "." || options.run.name == "..")) {
    throw UsageError("run.name = {} (it names the folder runs/NAME): a name without /, or set run.dir",
                     in_quotes(options.run.name));
  }
}

/// Weights are those of checkpoints: a step without one would leave none.
void check_kept_weights(const CheckpointOptions& options) {
  const std::int64_t every = options.every, weights = options.keep_every_weights;
  if (weights == 0 || (every > 0 && weights % every == 0)) return;
  if (every == 0) {
    throw UsageError(
        "checkpoint.keep_every_weights = {} with checkpoint.every = 0 (they are the weights of checkpoints, and no "
        "step "
        "is sure to have one): checkpoint.every = {}, or a divisor of it",
        weights, weights);
  }
  const std::int64_t below = weights / every * every;
  throw UsageError(
      "checkpoint.keep_every_weights = {} is no multiple of checkpoint.every = {} (they are the weights of "
      "checkpoints): {}{}",
      weights, every, below > 0 ? fmt::format("{} or ", below) : "", below + every);
}

}  // namespace

void validate(const Options& options) {
  check_used(options);
  check_resharding(options.shard.reshard_after_forward);
  check_sizes(options.model);
  check_ranges(options);
  check_offload(options);
  check_kept_weights(options.checkpoint);
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

/// A checkpoint is judged by the evaluation of its own step: some step before the last must have both.
void validate_best(const Options& options, std::int64_t steps, const std::string& origin) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.keep_best == 0) return;
  const auto refuse = [&](const std::string& why, const char* allowed) {
    throw UsageError("checkpoint.keep_best = {} ({}): {}", checkpoint.keep_best, why, allowed);
  };
  if (checkpoint.every == 0)
    refuse("checkpoint.every = 0 makes none at the steps of evaluations", "checkpoint.every, a number of steps");
  if (options.train.eval_every == 0)
    refuse("train.eval_every = 0 evaluates after the last step only", "train.eval_every, a number of steps");
  const std::int64_t both = common_multiple(checkpoint.every, options.train.eval_every);
  if (both <= steps) return;
  refuse(fmt::format("checkpoint.every = {} and train.eval_every = {} meet at step {} first, after train.steps = {}{}",
                     checkpoint.every, options.train.eval_every, both, steps, origin),
         "one a multiple of the other");
}

}  // namespace

void validate_for_steps(const Options& options, std::int64_t steps) {
  const auto& optim = options.optim;
  const auto origin =
      options.train.epochs > 0.0 ? fmt::format(" (train.epochs = {})", options.train.epochs) : std::string();
  if (optim.warmup_steps > steps) {
    throw UsageError("optim.warmup_steps = {} is more than train.steps = {}{}: 0 to {}", optim.warmup_steps, steps,
                     origin, steps);
  }
  const auto constant = steps - decay_steps(optim, steps);
  if (optim.schedule == LearningRateSchedule::wsd && optim.warmup_steps > constant) {
    throw UsageError(
        "optim.warmup_steps = {} reaches into the decay (optim.decay_fraction = {} of {} steps{}): 0 to {}",
        optim.warmup_steps, optim.decay_fraction, steps, origin, constant);
  }
  validate_best(options, steps, origin);
  if (options.run.dump > steps) {
    throw UsageError("run.dump = {} is after the last step (train.steps = {}{}): 0 to {}", options.run.dump, steps,
                     origin, steps);
  }
  if (const StepRange& trace = options.run.trace; trace.last > steps) {
    throw UsageError("run.trace = {}:{} ends after the last step (train.steps = {}{}): steps of 1 to {}", trace.first,
                     trace.last, steps, origin, steps);
  }
}

std::vector<std::string> allowed_changes(const CheckpointOptions& options) {
  static constexpr std::string_view known[] = {"data", "seq_len", "global_batch", "seed", "order"};
  std::vector<std::string> names;
  std::istringstream list(options.allow);
  for (std::string name; std::getline(list, name, ',');) {
    std::erase(name, ' ');
    if (std::ranges::find(known, name) == std::end(known)) {
      throw UsageError("checkpoint.allow = {} (it lists {}): a list of data, seq_len, global_batch, seed, order",
                       options.allow, in_quotes(name));
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
  throw UsageError(
      "train.global_batch = {} is no multiple of {} (ranks, {}, x train.micro_batch = {}, which run at a time): {}{}",
      options.global_batch, together, world, options.micro_batch, below > 0 ? fmt::format("{} or ", below) : "",
      below + together);
}

void validate_for_world(const Options& options, std::int64_t world, std::int64_t ranks_per_node) {
  if (options.grid.ranks_per_node > 0) ranks_per_node = options.grid.ranks_per_node;
  const ShardOptions& shard = options.shard;
  grid_for(shard.strategy, world, ranks_per_node, shard.group_size, shard.reshard_after_forward.ranks);
  accumulation_of(options.train, world);
}

}  // namespace tessera
