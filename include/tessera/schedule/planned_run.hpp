#pragma once
// From options to a planned run: options -> shape -> schedule -> memory plan.

#include <cstdint>
#include <functional>

#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

struct Options;
struct DataOptions;

/// Returns the policy that resolved options ask for (defaults by strategy filled in).
SchedulePolicy policy_from(const Options& options);

/// Returns train.seq_len, or the model's context if it is 0. Fine-tuning takes at most 1024 of the context, unless the
/// 0 was given by the user. Throws UsageError if the length exceeds the context, or is not decided yet (fit).
std::int64_t sequence_length(const Options& options, const Architecture& architecture);

/// Returns the sizes of train.sample_every's samples: one text, with prompt and continuation as long as the context.
GenerationShape sample_shape(const Options& options, const Architecture& architecture);

/// A model on ranks.
struct RunSite {
  Architecture architecture;
  std::int64_t world = 1, ranks_per_node = 1;
};

/// Everything about a run that decides its memory.
struct RunShape : RunSite {
  std::int64_t micro_batch = 1, sequence = 1;
  bool documents = false;                                   ///< data.document_mask
  std::int64_t most_documents = 0;                          ///< of a sample, with `documents`
  std::function<bool(const ParameterTensor&)> trains = {};  ///< as in PartChoices
  std::int64_t group_size = 0;                              ///< shard.group_size; 0 = the ranks of a node
  std::int64_t reshard_ranks = 0;  ///< the ranks over which slices of units stay after forward; 0 = none do
  SchedulePolicy policy;
  DeviceKind device = DeviceKind::cpu;         ///< whose kernels the scratch is for
  GpuAttention attention = GpuAttention::own;  ///< where cuDNN is given it
  bool reduce_by_strategy = true;  ///< shard.reduce is left to the strategy: another strategy takes its own default
};

/// Returns whether attention may be told the borders of documents, so that they must be counted.
bool tells_borders(const Options& options);
/// Returns the most documents of a sample of `sequence` tokens, as data.most_documents says, or assumes until they are
/// counted.
std::int64_t most_documents_of(const DataOptions& options, std::int64_t sequence);

/// Returns the shape that resolved options ask for; run.device = auto counts as cpu (resolved by device_choice.hpp).
RunShape run_shape(const Options& options, const RunSite& site);

/// Returns the shape of a run that only generates text.
RunShape generation_shape(const Options& options, const RunSite& site, const GenerationShape& generation);

/// Returns the shape of a run that only evaluates micro-batches of `sequence` tokens per sample, with each token's loss
/// on the host if `token_losses` is set.
RunShape evaluation_shape(const Options& options, const RunSite& site, std::int64_t sequence, bool token_losses);

/// The schedule and the memory plan of a run, before anything is allocated.
struct PlannedRun {
  StepSchedule schedule;  ///< its model says architecture, micro-batch and sequence
  MemoryPlan plan;
};
inline std::int64_t limited_bytes(const PlannedRun& run) { return limited_bytes(run.schedule, run.plan); }

/// Declares, builds and plans. Throws UsageError if the policy is impossible.
PlannedRun plan_shape(const RunShape& shape, const MemoryPlanOptions& options = {});

/// Returns the same run under another strategy, with the options that it does not use at their defaults.
RunShape with_strategy(RunShape shape, Strategy strategy);

}  // namespace tessera
