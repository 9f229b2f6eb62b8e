// Options that have no meaning given the others, and why.
#include <algorithm>
#include <initializer_list>

#include "tessera/base/error.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"

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
  switch (rules.life_with(shard.reshard_after_forward.drops)) {
    case ParameterLife::rest:
      add_unused(out, fmt::format("{} keeps full parameters and gathers nothing for forward or backward", rules.name),
                 {"shard.prefetch_forward", "shard.prefetch_backward", "shard.limit_all_gathers",
                  "shard.reshard_after_forward"});
      break;
    case ParameterLife::step:
      add_unused(out, fmt::format("{} gathers every unit once per step and keeps it through backward", rules.name),
                 {"shard.limit_all_gathers", "shard.reshard_after_forward", "shard.prefetch_backward"});
      break;
    case ParameterLife::micro_step:
      add_unused(out, "shard.reshard_after_forward = false keeps every unit through backward",
                 {"shard.limit_all_gathers", "shard.prefetch_backward"});
      break;
    case ParameterLife::phase:
      break;
  }
  if (shard.offload == Offload::none)
    out.push_back({"shard.offload_fraction", "shard.offload = none keeps all state on the device"});
  if (shard.wrap != Wrap::size) out.push_back({"shard.min_params", "only shard.wrap = size merges parts up to a size"});
}

void unused_by_model(const ModelOptions& model, std::vector<UnusedOption>& out) {
  if (model.from.empty() && model.family.empty()) return;
  const std::string reason = model.from.empty() ? "model.family names the model" : "model.from names the model";
  out.push_back({"model.preset", reason});
  if (model.from.empty()) return;
  out.push_back({"model.family", reason});
  for (const ModelSize& size : kModelSizes) out.push_back({fmt::format("model.{}", size.option), reason});
}

void unused_elsewhere(const Options& options, std::vector<UnusedOption>& out) {
  if (options.train.global_batch > 0)
    out.push_back({"train.accumulation", "train.global_batch already decides how many micro-batches make a step"});
  if (options.train.tokens > 0) {
    add_unused(out, "train.tokens already decides how long the run is", {"train.steps", "train.epochs"});
  } else if (options.train.epochs > 0.0) {
    out.push_back({"train.steps", "train.epochs already decides how long the run is"});
  }
  if (options.optim.schedule != LearningRateSchedule::wsd) {
    out.push_back({"optim.decay_fraction", "only optim.schedule = wsd decays in the last part of the steps"});
  }
  if (options.optim.name != OptimizerName::muon) {
    add_unused(out, fmt::format("optim.name = {} does not use Muon", name_of(options.optim.name)),
               {"optim.muon_momentum", "optim.muon_steps", "optim.muon_scale"});
  }
  if (options.optim.schedule == LearningRateSchedule::constant) {
    out.push_back({"optim.min_lr", "with optim.schedule = constant the rate never falls"});
  }
  if (options.shard.offload == Offload::none && !options.memory.offload_activations) {
    out.push_back({"memory.emulate_copies",
                   "shard.offload = none and memory.offload_activations = false copy nothing in a step"});
  }
  if (options.checkpoint.every != kAutomaticCount)
    out.push_back({"checkpoint.mtbf", "only checkpoint.every = auto reckons with failures"});
  if (options.precision.compute == DType::fp32) {
    out.push_back({"precision.logits", "with precision.compute = fp32 the logits are always fp32"});
  } else {
    out.push_back({"precision.matmul", "a 16-bit precision.compute leaves no fp32 matrices to multiply"});
  }
  if (options.precision.linear == LinearPrecision::compute)
    add_unused(out, "precision.linear = compute rounds nothing to fp8",
               {"precision.fp8_gradients", "precision.fp8_scale", "precision.fp8_smallest"});
  if (!options.lora.on() && options.checkpoint.resume == "none")  // a checkpoint may have adapters
    add_unused(out, "neither lora.rank nor lora.from asks for adapters",
               {"lora.alpha", "lora.dropout", "lora.targets", "lora.rank_stabilized", "lora.base_hash"});
  const bool adds = options.plan.view >= PlanView::timeline;
  if (options.plan.format == ResultFormat::json && !adds)
    out.push_back({"plan.view", "plan.format = json always has the table, the schedule and the units"});
}

/// Options that a device of this kind has no use for.
void unused_by_device(const DeviceTraits& device, std::vector<UnusedOption>& out) {
  if (device.uses_mpi) {
    out.push_back(
        {"comm.backend", "run.device = cpu, or auto without a GPU, lets ranks talk through shared memory and MPI"});
  }
  const char* const reason = "run.device = cpu, or auto without a GPU, has no such choice";
  if (!device.has_library_choice) add_unused(out, reason, {"run.attention", "run.algorithms", "run.algorithms_hash"});
  if (!device.has_graphs) out.push_back({"run.graph", reason});
  if (!device.is_accelerator) add_unused(out, reason, {"run.share_gpu", "precision.matmul"});
}

void unused_by_memory(const MemoryOptions& options, std::vector<UnusedOption>& out) {
  if (options.checkpoint == ActivationCheckpointing::none) {
    out.push_back({"memory.offload_activations",
                   "memory.checkpoint = none recomputes nothing, and only inputs of recomputed blocks are offloaded "
                   "(block, selective or fit)"});
  }
  if (options.checkpoint == ActivationCheckpointing::selective) return;
  add_unused(out, "only memory.checkpoint = selective chooses blocks and their parts",
             {"memory.checkpoint_blocks", "memory.checkpoint_parts"});
}

void unused_by_data(const Options& options, std::vector<UnusedOption>& out) {
  if (options.data.source != "synthetic") out.push_back({"data.synthetic_tokens", "data.source is not synthetic"});
  // A validation set or questions are text whatever is trained on.
  if (options.data.source == "synthetic" && options.data.val_source.empty() && options.eval.choices.empty()) {
    const char* const reason = "data.source = synthetic reads no text";
    add_unused(out, reason,
               {"data.text_key", "data.separator", "data.on_error", "data.cache", "data.output", "data.chat_turns",
                "data.chat_counts"});
    if (has_document_mask(options.data)) add_unused(out, reason, {"data.document_mask", "data.packing"});
    const bool generates =
        options.train.sample_every > 0 || !options.generate.prompt.empty() || !options.generate.prompts.empty();
    if (!generates) out.push_back({"data.tokenizer", reason});
  }
  if (options.data.chat_counts == ChatCounts::all)
    out.push_back({"data.chat_turns", "data.chat_counts = all counts every token of a conversation"});
  if (!packs_documents(options.data))
    out.push_back({"data.too_long", "only data.packing = documents keeps documents whole"});
  if (!options.data.output.empty()) {
    add_unused(out, "data.output names a file for the tokens instead", {"data.cache"});
    add_unused(out, "data.output is written from data.source only", {"data.val_source"});
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

void unused_by_bench(const BenchOptions& options, std::vector<UnusedOption>& out) {
  if (!options.sizes.empty()) out.push_back({"bench.max_bytes", "bench.sizes already lists the messages"});
}

void unused_by_checkpoint(const CheckpointOptions& options, std::vector<UnusedOption>& out) {
  if (options.resume == "none") out.push_back({"checkpoint.allow", "checkpoint.resume = none compares nothing"});
  if (options.keep == 0)
    add_unused(out, "checkpoint.keep = 0 keeps all checkpoints", {"checkpoint.keep_every", "checkpoint.keep_best"});
}

}  // namespace

std::vector<UnusedOption> unused_options(const Options& options) {
  std::vector<UnusedOption> out;
  unused_by_strategy(options.shard, out);
  unused_by_model(options.model, out);
  unused_elsewhere(options, out);
  if (options.run.device) unused_by_device(traits_of(*options.run.device), out);
  unused_by_data(options, out);
  unused_by_memory(options.memory, out);
  unused_by_checkpoint(options.checkpoint, out);
  unused_by_bench(options.bench, out);
  return out;
}

bool has_effect(const Options& options, std::string_view name) {
  return std::ranges::none_of(unused_options(options), [&](const UnusedOption& one) { return one.name == name; });
}

void drop_unused(Options& options, const std::function<bool(const std::string& name)>& may) {
  static const Options defaults;
  for (const UnusedOption& unused : unused_options(options)) {
    if (!may(unused.name)) continue;
    apply({unused.name, value_of(defaults, unused.name), ""}, options);
    options.given.erase(unused.name);
  }
}

}  // namespace tessera
