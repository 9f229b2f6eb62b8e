#include "fit/fit_changes.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/base/format.hpp"
#include "tessera/fit/search.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera {

namespace {

std::int64_t bytes_needed(const RunShape& shape) { return limited_bytes(plan_shape(shape, kQuickPlan)); }

/// Returns the largest smaller micro-batch that fits; 1 if none does.
std::int64_t largest_micro_batch(RunShape shape, std::int64_t allowed) {
  const std::int64_t fitting = last_that_fits(0, shape.micro_batch, [&](std::int64_t batch) {
    shape.micro_batch = batch;
    return bytes_needed(shape) <= allowed;
  });
  return std::max<std::int64_t>(1, fitting);
}

/// Returns `shape` with one change.
Change changed(const RunShape& shape, std::string option, const std::function<void(RunShape&)>& change) {
  Change result{std::move(option), shape};
  change(result.shape);
  return result;
}

// The changes that a run can still make, one function per dimension.

std::vector<Change> asynchronous_off(const RunShape& shape) {
  if (!shape.policy.snapshot || kernel_needs(shape.device).limited(0, 1) == 0) return {};
  return {changed(shape, "checkpoint.async=false", [](RunShape& s) { s.policy.snapshot = false; })};
}

std::vector<Change> fewer_gathers(const RunShape& shape) {
  if (!gathers_are_limited(shape.policy) || shape.policy.limit_all_gathers == 1) return {};
  return {changed(shape, "shard.limit_all_gathers=1", [](RunShape& s) { s.policy.limit_all_gathers = 1; })};
}

/// Slices that stay after forward instead of full units, over as many ranks as possible; then none that stay.
std::vector<Change> resharding(const RunShape& shape) {
  const SchedulePolicy& policy = shape.policy;
  const std::int64_t widest = widest_sub_group(policy.strategy, shape.world, shape.ranks_per_node, shape.group_size);
  if (rules_of(policy.strategy).life != ParameterLife::phase || shape.world == 1) return {};
  const std::int64_t now = policy.reshard_after_forward ? shape.reshard_ranks : 1;
  if (now == 0) return {};
  std::vector<Change> changes;
  const auto add = [&](const std::string& value, std::int64_t ranks) {
    changes.push_back(changed(shape, "shard.reshard_after_forward=" + value,
                              [&](RunShape& s) { s.policy.reshard_after_forward = true, s.reshard_ranks = ranks; }));
  };
  if (widest > now) add(std::to_string(widest), widest);
  add("true", 0);
  return changes;
}

std::vector<Change> nothing_activated(const RunShape& shape) {
  if (!shape.policy.keeps_activated) return {};
  return {changed(shape, "memory.keep_activated=false", [](RunShape& s) { s.policy.keeps_activated = false; })};
}

std::vector<Change> own_attention(const RunShape& shape) {
  const bool is_large = shape.attention == GpuAttention::deterministic_cudnn || shape.documents;
  if (shape.attention == GpuAttention::own || !is_large) return {};
  return {changed(shape, "run.attention=own", [](RunShape& s) { s.attention = GpuAttention::own; })};
}

std::vector<Change> recompute(const RunShape& shape) {
  if (shape.policy.recomputation.is_all()) return {};
  return {changed(shape, "memory.checkpoint=block",
                  [](RunShape& s) { s.policy.recomputation = Recomputation::all_blocks(); })};
}

/// Chunks in which matmuls still have rows enough.
std::vector<Change> mlp_in_chunks(const RunShape& shape) {
  constexpr std::int64_t kChunk = 4096;
  const SchedulePolicy& policy = shape.policy;
  if (policy.mlp_chunk > 0 || policy.fp8 || policy.reduce != DType::fp32) return {};
  if (shape.micro_batch * shape.sequence <= 2 * kChunk) return {};
  const char* const with = policy.keeps_activated ? " with memory.keep_activated=false" : "";
  return {changed(shape, fmt::format("memory.mlp_chunk={}{}", kChunk, with),
                  [](RunShape& s) { s.policy.mlp_chunk = kChunk, s.policy.keeps_activated = false; })};
}

std::vector<Change> more_sharding(const RunShape& shape) {
  std::vector<Change> changes;
  if (shape.world == 1) return changes;
  for (const Strategy strategy : strategies_that_shard_more(shape.policy.strategy)) {
    changes.push_back(changed(shape, fmt::format("shard.strategy={}", name_of(strategy)),
                              [&](RunShape& s) { s = with_strategy(s, strategy); }));
  }
  return changes;
}

/// On a CPU device and host share one memory, so this would save nothing. State that is updated by whole matrices stays
/// on the device.
std::vector<Change> offload(const RunShape& shape) {
  if (kernel_needs(shape.device).limited(0, 1) > 0 || rules_of(shape.policy.optimizer).wants_matrices) return {};
  const Offload now = shape.policy.offload;
  const bool is_partial = shape.policy.offload_fraction < 1;
  std::vector<Change> changes;
  const auto add = [&](Offload what) {
    std::string options = what == now ? "" : fmt::format("shard.offload={}", name_of(what));
    if (is_partial) options += fmt::format("{}shard.offload_fraction=1", options.empty() ? "" : " with ");
    changes.push_back(changed(shape, std::move(options), [&](RunShape& s) {
      s.policy.offload = what;
      s.policy.offload_fraction = 1;
    }));
  };
  if (now == Offload::none || (now == Offload::optimizer && is_partial)) add(Offload::optimizer);
  const bool can_offload_params = rules_of(shape.policy.strategy).life != ParameterLife::rest;
  if (can_offload_params && (now != Offload::params || is_partial)) add(Offload::params);
  return changes;
}

/// Moves the inputs of recomputed blocks to the host. On a CPU that saves nothing either.
std::vector<Change> offload_activations(const RunShape& shape) {
  const SchedulePolicy& policy = shape.policy;
  if (kernel_needs(shape.device).limited(0, 1) > 0 || policy.offload_activations) return {};
  if (inputs_to_offload(policy.recomputation, shape.architecture.layers) == 0) return {};
  return {changed(shape, "memory.offload_activations=true", [](RunShape& s) { s.policy.offload_activations = true; })};
}

std::vector<Change> smallest_batch(const RunShape& shape) {
  if (shape.micro_batch == 1) return {};
  return {changed(shape, "train.micro_batch=1", [](RunShape& s) { s.micro_batch = 1; })};
}

std::vector<Change> reduce_in_bf16(const RunShape& shape) {
  if (shape.policy.reduce != DType::fp32 || shape.policy.mlp_chunk > 0) return {};
  return {changed(shape, "precision.reduce=bf16", [](RunShape& s) { s.policy.reduce = DType::bf16; })};
}

std::vector<Change> compute_in_bf16(const RunShape& shape) {
  if (shape.policy.compute != DType::fp32) return {};
  return {changed(shape, "precision.compute=bf16", [](RunShape& s) { s.policy.compute = DType::bf16; })};
}

/// Something that can be changed: as it is, or in one of several ways.
struct Dimension {
  std::vector<Change> (*changes)(const RunShape&);
  bool always_least = false;  ///< the change never costs memory, so only the changed run is tried
};

/// Returns the dimensions over which the run of least memory is searched, from the cheapest change to the dearest.
const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> all{
      {asynchronous_off, true}, {nothing_activated, true},   {own_attention, true}, {recompute, false},
      {mlp_in_chunks, true},    {more_sharding, false},      {resharding, false},   {fewer_gathers, false},
      {smallest_batch, true},   {offload_activations, true}, {offload, false},      {reduce_in_bf16, false},
      {compute_in_bf16, false}};
  return all;
}

/// A run with some of its dimensions changed.
struct Combination {
  RunShape shape;
  std::vector<std::string> options;  ///< by dimension; empty if nothing is changed
  std::int64_t bytes = 0;
};

/// Of all combinations, or of those with the options `only`, finds the first that needs least.
std::optional<Combination> find_least(const RunShape& shape, const std::vector<std::string>& only = {}) {
  const auto choices = [&](const Combination& now, std::size_t d) {
    std::vector<Combination> out{now};
    for (const Change& change : dimensions()[d].changes(now.shape)) {
      out.push_back({change.shape, now.options});
      out.back().options[d] = change.option;
    }
    if (only.empty() && dimensions()[d].always_least && out.size() > 1) out.erase(out.begin());
    std::erase_if(out, [&](const Combination& one) { return !only.empty() && one.options[d] != only[d]; });
    return out;
  };
  std::optional<Combination> least;
  const std::size_t count = dimensions().size();
  each_combination(Combination{shape, std::vector<std::string>(count)}, count, choices, [&](const Combination& one) {
    const auto bytes = bytes_with({"", one.shape});
    if (bytes && (!least || *bytes < least->bytes)) least = Combination{one.shape, one.options, *bytes};
    return true;
  });
  return least;
}

}  // namespace

std::optional<std::int64_t> bytes_with(const Change& change) {
  try {
    return bytes_needed(change.shape);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

std::vector<Change> single_changes(const RunShape& shape, std::int64_t allowed) {
  std::vector<Change> changes;
  for (const auto& of :
       {asynchronous_off, fewer_gathers, resharding, nothing_activated, own_attention, recompute, mlp_in_chunks,
        more_sharding, smallest_batch, offload_activations, offload, reduce_in_bf16, compute_in_bf16}) {
    for (Change& change : of(shape)) changes.push_back(std::move(change));
  }
  for (Change& change : changes) {
    if (!change.option.starts_with("train.micro_batch")) continue;
    change.shape.micro_batch = largest_micro_batch(shape, allowed);
    change.option = fmt::format("train.micro_batch={}", change.shape.micro_batch);
  }
  return changes;
}

void combine(const RunShape& shape, FitAnswer& answer) {
  const std::optional<Combination> least = find_least(shape);
  if (!least || least->bytes >= answer.needed) return;
  const bool fits = least->bytes <= answer.allowed;
  const std::int64_t goal = fits ? answer.allowed : least->bytes;
  Combination best = *least;
  std::vector<std::string> needed = least->options;
  for (std::size_t d = needed.size(); d-- > 0;) {
    const std::string option = std::exchange(needed[d], "");
    if (option.empty()) continue;
    const auto without = find_least(shape, needed);
    if (without && without->bytes <= goal) {
      best = *without;
    } else {
      needed[d] = option;
    }
  }
  const auto batch = std::ranges::find(best.options, "train.micro_batch=1");
  if (fits && batch != best.options.end()) {  // perhaps one larger than 1
    best.shape.micro_batch = shape.micro_batch;
    best.shape.micro_batch = largest_micro_batch(best.shape, answer.allowed);
    *batch = fmt::format("train.micro_batch={}", best.shape.micro_batch);
    best.bytes = bytes_needed(best.shape);
  }
  (fits ? answer.together : answer.smallest) =
      fmt::format("{} ({})", joined(best.options, {}, " with "), format_bytes(best.bytes));
}

}  // namespace tessera
