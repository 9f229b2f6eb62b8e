#include "tessera/schedule/planned_run.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/config/fine_tuning.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera {

SchedulePolicy policy_from(const Options& options) {
  SchedulePolicy policy;
  policy.strategy = options.shard.strategy;
  policy.optimizer = options.optim.name;
  policy.moments = dtype_of(options.optim.moments);
  policy.wrap = options.shard.wrap;
  policy.min_params = options.shard.min_params;
  policy.reshard_after_forward = options.shard.reshard_after_forward.drops;
  policy.prefetch.forward = options.shard.prefetch_forward;
  policy.prefetch.backward = options.shard.prefetch_backward;
  policy.limit_all_gathers = options.shard.limit_all_gathers;
  policy.reduce_each_micro_step =
      resolved_reduce(options.shard.reduce, options.shard.strategy) == ReduceWhen::micro_step;
  policy.recomputation = recomputation_of(options.memory);
  policy.accumulation = options.train.accumulation;
  policy.compute = options.precision.compute;
  policy.reduce = options.precision.reduce;
  policy.deterministic = is_deterministic(options.run);
  policy.adds_in_backward = !policy.deterministic && traits_of(device_of(options.run)).is_accelerator;
  policy.evaluation = options.data.has_validation();
  policy.snapshot = options.checkpoint.async;
  policy.unit_norms = options.metrics.layer_norms;
  policy.sample_losses = is_mixture(options.data);
  policy.state_sums = options.run.check_every > 0;
  policy.replays = options.run.replay_every > 0;
  policy.offload = options.shard.offload;
  TESSERA_ASSERT(!options.shard.offload_fraction.fits, "shard.offload_fraction = fit is decided before a plan");
  policy.offload_fraction = options.shard.offload_fraction.value;
  policy.offload_activations = options.memory.offload_activations;
  policy.keeps_activated = keeps_activated(options);
  policy.has_fp32_logits = options.precision.logits == LogitsPrecision::fp32;
  if (options.precision.linear == LinearPrecision::fp8)
    policy.fp8 = Fp8Linears{smallest_fp8_side(options.precision), options.precision.fp8_gradients};
  if (!traits_of(device_of(options.run)).uses_mpi)
    policy.transfer = options.comm.backend == CommBackend::staged ? Transfer::staged : Transfer::nccl;
  return policy;
}

std::int64_t sequence_length(const Options& options, const Architecture& architecture) {
  std::int64_t length = options.train.seq_len;
  if (length == kFittingLength)
    throw refuse("train.seq_len", "fit")
        .because("memory decides it for train, bench step and plan only")
        .use("a number");
  if (length == 0) {
    const bool is_short = is_fine_tuning(options) && options.is_open("train.seq_len");
    length = is_short ? std::min(architecture.context, kFineTuningSequence) : architecture.context;
  }
  if (length > architecture.context) {
    throw refusal("train.seq_len = {} is longer than the model's context, model.context = {}", length,
                  architecture.context)
        .use("at most {}", architecture.context);
  }
  return length;
}

GenerationShape sample_shape(const Options& options, const Architecture& architecture) {
  constexpr std::int64_t longest_prompt = 64;
  const std::int64_t positions =
      std::min(architecture.context, checked_add(longest_prompt, options.generate.max_tokens));
  return {1, std::min(positions, longest_prompt), positions};
}

namespace {

/// Throws UsageError if blocks are recomputed but none of their inputs would be copied to the host.
void require_inputs_to_offload(const SchedulePolicy& policy, const Architecture& architecture) {
  const Recomputation& recomputation = policy.recomputation;
  if (!policy.offload_activations || !recomputation.is_any()) return;
  require_blocks(recomputation, architecture.layers);
  if (inputs_to_offload(recomputation, architecture.layers) > 0) return;
  throw refusal("memory.offload_activations = true offloads nothing when the recomputation is {}",
                describe(recomputation))
      .because("the input of the last of {} is needed again right after the head",
               counted(architecture.layers, "block"))
      .hint("Recompute more blocks, or use false");
}

/// Decides what memory.mlp_chunk leaves of other choices. UsageError for those that it excludes.
void take_mlp_in_chunks(const Options& options, RunShape& shape) {
  SchedulePolicy& policy = shape.policy;
  const std::int64_t chunk = options.memory.mlp_chunk;
  if (chunk == 0 || chunk >= checked_multiply(shape.micro_batch, shape.sequence)) return;
  if (policy.fp8)
    throw refuse("memory.mlp_chunk", chunk)
        .because("precision.linear = fp8 scales a linear's input by its largest magnitude in the whole micro-batch")
        .use("0, or precision.linear = compute");
  if (policy.reduce != DType::fp32)
    throw refuse("memory.mlp_chunk", chunk)
        .because("precision.reduce = {} would round the gradients of weights after each chunk", name_of(policy.reduce))
        .use("0, or precision.reduce = fp32");
  if (options.memory.keep_activated == Tristate::yes)
    throw refuse("memory.keep_activated", "true")
        .because("memory.mlp_chunk = {} keeps nothing of an MLP for backward", chunk)
        .use("auto or false");
  policy.mlp_chunk = chunk;
  policy.keeps_activated = false;
  if (policy.recomputation.attention) return;
  if (policy.recomputation.mlp && policy.offload_activations)
    throw refusal("memory.offload_activations = true offloads nothing when only MLPs are recomputed")
        .because("with memory.mlp_chunk = {} each starts from what the attention before it keeps", chunk)
        .hint("Recompute attention as well, or use false");
  policy.recomputation = {};  // backward computes chunks again in any case
}

bool wants_library_attention(const Options& options) {
  return traits_of(device_of(options.run)).has_library_choice && options.run.attention != AttentionChoice::own;
}

/// Returns what the options say of every run.
RunShape common_shape(const Options& options, const RunSite& site) {
  RunShape shape;
  static_cast<RunSite&>(shape) = site;
  shape.group_size = options.shard.group_size;
  shape.policy = policy_from(options);
  shape.device = device_of(options.run);
  if (wants_library_attention(options))
    shape.attention = shape.policy.deterministic ? GpuAttention::deterministic_cudnn : GpuAttention::cudnn;
  return shape;
}

}  // namespace

bool tells_borders(const Options& options) {
  return has_document_mask(options.data) && wants_library_attention(options);
}

std::int64_t most_documents_of(const DataOptions& options, std::int64_t sequence) {
  constexpr std::int64_t kAssumedTokens = 128;
  return options.most_documents > 0 ? options.most_documents : ceil_div(sequence, kAssumedTokens);
}

RunShape run_shape(const Options& options, const RunSite& site) {
  RunShape shape = common_shape(options, site);
  shape.micro_batch = options.train.micro_batch;
  shape.sequence = sequence_length(options, site.architecture);
  shape.documents = has_document_mask(options.data);
  shape.most_documents = most_documents_of(options.data, shape.sequence);
  shape.reshard_ranks = options.shard.reshard_after_forward.ranks;
  // It costs more to make a gated unit's output in the recomputation than to make it on the way in backward.
  if (options.memory.keep_activated == Tristate::automatic && site.architecture.is_gated() &&
      shape.policy.recomputation.has_all_mlps())
    shape.policy.keeps_activated = false;
  take_mlp_in_chunks(options, shape);
  require_inputs_to_offload(shape.policy, site.architecture);
  shape.policy.accumulation = accumulation_of(options.train, site.world);
  if (options.train.sample_every > 0) shape.policy.generation = sample_shape(options, site.architecture);
  shape.reduce_by_strategy = options.shard.reduce == ReduceWhen::by_strategy;
  return shape;
}

namespace {

/// Returns a shape without training, and without segments.
RunShape shape_at_rest(const Options& options, const RunSite& site) {
  RunShape shape = common_shape(options, site);
  shape.policy.accumulation = 1;
  shape.trains = [](const ParameterTensor&) { return false; };
  shape.policy.evaluation = shape.policy.snapshot = false;
  shape.policy.offload = Offload::none;
  shape.policy.offload_activations = false;
  return shape;
}

}  // namespace

RunShape generation_shape(const Options& options, const RunSite& site, const GenerationShape& generation) {
  RunShape shape = shape_at_rest(options, site);
  shape.policy.generation = generation;
  return shape;
}

RunShape evaluation_shape(const Options& options, const RunSite& site, std::int64_t sequence, bool token_losses) {
  RunShape shape = shape_at_rest(options, site);
  shape.micro_batch = options.train.micro_batch;
  shape.sequence = sequence;
  shape.policy.evaluation = true;
  shape.policy.token_losses = token_losses;
  shape.documents = has_document_mask(options.data) && !token_losses;
  shape.most_documents = most_documents_of(options.data, shape.sequence);
  return shape;
}

PlannedRun plan_shape(const RunShape& shape, const MemoryPlanOptions& options) {
  const ProcessGrid grid =
      grid_for(shape.policy.strategy, shape.world, shape.ranks_per_node, shape.group_size, shape.reshard_ranks);
  ModelParts model = declare_parts(
      shape.architecture, shape.micro_batch, shape.sequence, shape.policy.compute, shape.policy.reduce, shape.device,
      {shape.policy.keeps_activated, shape.policy.has_fp32_logits, shape.attention, shape.documents,
       shape.most_documents, shape.trains, shape.policy.fp8, shape.policy.mlp_chunk});
  PlannedRun run{build_schedule(model, grid, shape.policy), {}};
  run.plan = plan_memory(run.schedule, options);
  return run;
}

RunShape with_strategy(RunShape shape, Strategy strategy) {
  shape.policy.strategy = strategy;
  shape.policy.keeps_copies = false;
  if (rules_of(strategy).life != ParameterLife::phase) shape.reshard_ranks = 0;
  if (shape.reduce_by_strategy) shape.policy.reduce_each_micro_step = rules_of(strategy).reduces_each_micro_step();
  return shape;
}

}  // namespace tessera
