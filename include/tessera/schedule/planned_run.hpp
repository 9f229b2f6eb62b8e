#pragma once
// From options to a planned run: options -> shape -> schedule -> memory plan.

#include <cstdint>

#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"

namespace tessera {

/// Returns the policy that resolved options ask for (defaults by strategy filled in).
SchedulePolicy policy_from(const Options& options);

/// Returns train.seq_len, or the model's context, of which a fine-tuning takes 1024 at most unless the 0 was given.
/// Throws UsageError when longer than the context.
std::int64_t sequence_length(const Options& options, const Architecture& architecture);

/// Returns the sizes of train.sample_every's samples: one text, prompt and continuation as far as the context allows.
GenerationShape sample_shape(const Options& options, const Architecture& architecture);

/// A run as far as its memory goes.
struct RunShape {
  Architecture architecture;
  std::int64_t micro_batch = 1, sequence = 1;
  bool documents = false;  ///< data.document_mask
  std::int64_t world = 1, ranks_per_node = 1;
  std::int64_t group_size = 0;     ///< shard.group_size; 0 = the ranks of a node
  std::int64_t reshard_ranks = 0;  ///< over which slices of units stay after forward; 0 = none do
  SchedulePolicy policy;
  DeviceKind device = DeviceKind::cpu;  ///< whose kernels the scratch is for
  bool reduce_by_strategy = true;  ///< shard.reduce is left to the strategy: another strategy takes its own default
};

/// Returns the shape that resolved options ask for; run.device = auto counts as cpu (resolved by device_choice.hpp).
RunShape run_shape(const Options& options, const Architecture& architecture, std::int64_t world,
                   std::int64_t ranks_per_node);

/// Returns the shape of a run that only generates text.
RunShape generation_shape(const Options& options, const Architecture& architecture, std::int64_t world,
                          std::int64_t ranks_per_node, const GenerationShape& generation);

/// Returns the shape of a run that only evaluates micro-batches of `sequence` tokens a sample, with each token's loss
/// on the host where `token_losses`.
RunShape evaluation_shape(const Options& options, const Architecture& architecture, std::int64_t world,
                          std::int64_t ranks_per_node, std::int64_t sequence, bool token_losses);

/// Schedule and plan of a run, before anything is allocated.
struct PlannedRun {
  StepSchedule schedule;  ///< its model says architecture, micro-batch and sequence
  MemoryPlan plan;
};

/// Declares, builds and plans. Throws UsageError where the policy is impossible.
PlannedRun plan_shape(const RunShape& shape, const MemoryPlanOptions& options = {});

/// Does the same from resolved options, and proves schedule and plan, which `poll` may end.
PlannedRun plan_run(const Options& options, const Architecture& architecture, std::int64_t world,
                    std::int64_t ranks_per_node, const Poll& poll = {});

/// Returns the same run under another strategy; what that strategy does not use is left at its defaults.
RunShape with_strategy(RunShape shape, Strategy strategy);

}  // namespace tessera
