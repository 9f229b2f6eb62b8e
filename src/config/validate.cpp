#include "tessera/config/validate.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>

#include "config/option_table.hpp"
#include "config/value_text.hpp"
#include "tessera/base/decimal.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/recomputation.hpp"
#include "tessera/config/validation_sources.hpp"

namespace tessera {

namespace {

/// Adds options that have no meaning for one reason.
void add_unused(std::vector<UnusedOption>& out, const std::string& reason, std::initializer_list<const char*> names) {
  for (const char* name : names) out.push_back({name, reason});
}

void unused_by_strategy(const ShardOptions& shard, std::vector<UnusedOption>& out) {
  const StrategyRules& rules = rules_of(shard.strategy);
  if (!rules.is_hybrid()) {
    add_unused(out, "only " + names_of_hybrids() + " have a shard group smaller than the world", {"shard.group_size"});
  }
  switch (rules.life_with(shard.reshard_after_forward)) {
    case ParameterLife::rest:
      add_unused(out, fmt::format("{} keeps full parameters and gathers nothing for forward or backward", rules.name),
                 {"shard.prefetch_forward", "shard.prefetch_backward", "shard.limit_all_gathers",
                  "shard.reshard_after_forward"});
      break;
    case ParameterLife::step:
      add_unused(out, fmt::format("{} gathers every unit once a step and keeps it through backward", rules.name),
                 {"shard.limit_all_gathers", "shard.reshard_after_forward", "shard.prefetch_backward"});
      break;
    case ParameterLife::micro_step:
      add_unused(out, "reshard_after_forward = false keeps every unit through backward",
                 {"shard.limit_all_gathers", "shard.prefetch_backward"});
      break;
    case ParameterLife::phase:
      break;
  }
  if (shard.offload == Offload::none)
    out.push_back({"shard.offload_fraction", "shard.offload = none keeps all state on the device"});
  if (shard.wrap != Wrap::size) out.push_back({"shard.min_params", "only wrap = size merges parts up to a size"});
}

void unused_by_model(const ModelOptions& model, std::vector<UnusedOption>& out) {
  if (model.from.empty() && model.family.empty()) return;
  const std::string reason = model.from.empty() ? "model.family names the model" : "model.from names the model";
  out.push_back({"model.preset", reason});
  if (model.from.empty()) return;
  add_unused(out, reason,
             {"model.family", "model.layers", "model.heads", "model.kv_heads", "model.width", "model.ffn_width",
              "model.vocab", "model.context"});
}

void unused_elsewhere(const Options& options, std::vector<UnusedOption>& out) {
  if (options.train.global_batch > 0)
    out.push_back({"train.accumulation", "train.global_batch decides how many micro-batches make a step: not both"});
  if (options.train.epochs > 0.0) out.push_back({"train.steps", "train.epochs decides how long: not both"});
  if (options.optim.schedule != LearningRateSchedule::wsd) {
    out.push_back({"optim.decay_fraction", "only optim.schedule = wsd decays in the last part of the steps"});
  }
  if (options.optim.schedule == LearningRateSchedule::constant) {
    out.push_back({"optim.min_lr", "optim.schedule = constant never falls"});
  }
  if (options.shard.offload == Offload::none)
    out.push_back({"memory.emulate_copies", "shard.offload = none copies nothing in a step"});
  if (options.plan.format == PlanFormat::json) out.push_back({"plan.view", "plan.format = json has every view"});
}

/// Options of [comm] that only ranks on GPUs have a use for.
void unused_by_backend(const Options& options, std::vector<UnusedOption>& out) {
  const CommOptions& comm = options.comm;
  const auto unused = [&](const char* reason) {
    add_unused(
        out, reason,
        {"comm.register_buffers", "comm.symmetric", "comm.copy_engine_gather", "comm.min_ctas", "comm.max_ctas"});
  };
  if (options.run.device && traits_of(*options.run.device).uses_mpi) {
    const char* const reason = "run.device = cpu, or auto without a GPU: ranks talk through shared memory and MPI";
    out.push_back({"comm.backend", reason});
    unused(reason);
  } else if (comm.backend == CommBackend::staged) {
    unused("comm.backend = staged does not use NCCL");
  } else if (!comm.symmetric) {
    out.push_back({"comm.copy_engine_gather", "copy engines gather within symmetric windows only: comm.symmetric"});
  } else {
    out.push_back({"comm.register_buffers", "comm.symmetric = true registers them as windows"});
  }
}

/// Options of [run] that a device of this kind has no use for.
void unused_by_device(const DeviceTraits& device, std::vector<UnusedOption>& out) {
  const char* const reason = "run.device = cpu, or auto without a GPU: the choice is a GPU's";
  if (!device.has_attention_choice) out.push_back({"run.attention", reason});
  if (!device.has_graphs) out.push_back({"run.graph", reason});
  if (!device.is_accelerator) out.push_back({"run.share_gpu", reason});
}

void unused_by_memory(const MemoryOptions& options, std::vector<UnusedOption>& out) {
  if (options.checkpoint == ActivationCheckpointing::selective) return;
  add_unused(out, "memory.checkpoint = selective alone chooses",
             {"memory.checkpoint_blocks", "memory.checkpoint_parts"});
}

void unused_by_data(const Options& options, std::vector<UnusedOption>& out) {
  if (options.data.source != "synthetic") out.push_back({"data.synthetic_tokens", "data.source is no synthetic text"});
  // A validation set or questions are text whatever is trained on.
  if (options.data.source == "synthetic" && options.data.val_source.empty() && options.eval.choices.empty()) {
    const char* const reason = "data.source = synthetic reads no text";
    add_unused(out, reason,
               {"data.text_key", "data.separator", "data.on_error", "data.document_mask", "data.cache", "data.output"});
    const bool generates =
        options.train.sample_every > 0 || !options.generate.prompt.empty() || !options.generate.prompts.empty();
    if (!generates) out.push_back({"data.tokenizer", reason});
  }
  if (!options.data.output.empty()) {
    add_unused(out, "data.output names a file instead", {"data.cache"});
    add_unused(out, "data.output is written from data.source alone", {"data.val_source"});
  }
  if (!options.eval.choices.empty()) {
    add_unused(out, "eval.choices is evaluated instead",
               {"data.source", "data.val_source", "data.val_fraction", "train.eval_batches", "train.seq_len"});
  }
  if (!options.data.val_source.empty()) out.push_back({"data.val_fraction", "data.val_source is evaluated instead"});
  if (options.data.has_validation()) return;
  add_unused(out, "data.val_fraction = 0 leaves nothing to evaluate",
             {"train.eval_every", "train.eval_batches", "checkpoint.keep_best"});
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

/// A family without a preset needs every size that has no rule of its own (kv_heads = heads, ffn_width = 4 x width).
void check_sizes(const ModelOptions& model) {
  if (model.family.empty()) return;
  const std::pair<const char*, std::int64_t> sizes[] = {{"model.layers", model.layers},
                                                        {"model.heads", model.heads},
                                                        {"model.width", model.width},
                                                        {"model.vocab", model.vocab},
                                                        {"model.context", model.context}};
  for (const auto& [name, size] : sizes) {
    if (size == 0)
      throw UsageError("{} is missing (model.family = {} has no preset): give it", name, in_quotes(model.family));
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

void unused_by_bench(const BenchOptions& options, std::vector<UnusedOption>& out) {
  if (!options.sizes.empty()) out.push_back({"bench.max_bytes", "bench.sizes lists the messages"});
}

void unused_by_checkpoint(const CheckpointOptions& options, std::vector<UnusedOption>& out) {
  if (options.resume == "none") out.push_back({"checkpoint.allow", "checkpoint.resume = none compares nothing"});
  if (options.keep == 0)
    add_unused(out, "checkpoint.keep = 0 keeps all",
               {"checkpoint.keep_every", "checkpoint.keep_best", "checkpoint.keep_every_weights"});
}

}  // namespace

std::vector<UnusedOption> unused_options(const Options& options) {
  std::vector<UnusedOption> out;
  unused_by_strategy(options.shard, out);
  unused_by_model(options.model, out);
  unused_elsewhere(options, out);
  if (options.run.device) unused_by_device(traits_of(*options.run.device), out);
  unused_by_backend(options, out);
  unused_by_data(options, out);
  unused_by_memory(options.memory, out);
  unused_by_checkpoint(options.checkpoint, out);
  unused_by_bench(options.bench, out);
  return out;
}

void validate(const Options& options) {
  check_used(options);
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
  grid_for(options.shard.strategy, world, ranks_per_node, options.shard.group_size);
  accumulation_of(options.train, world);
}

}  // namespace tessera
