#pragma once
// Does it fit? And if not: by how much, and which single option would make it fit. Every answer is a planned schedule,
// not an estimate.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

/// A run as far as its memory goes.
struct RunShape {
  Architecture architecture;
  std::int64_t micro_batch = 1, sequence = 1;
  std::int64_t world = 1, ranks_per_node = 1;
  std::int64_t group_size = 0;  ///< shard.group_size; 0 = the ranks of a node
  SchedulePolicy policy;
  DeviceKind device = DeviceKind::cpu;  ///< whose kernels the scratch is for
  bool reduce_by_strategy = true;  ///< shard.reduce is left to the strategy: another strategy takes its own default
};

/// The shape that resolved options ask for; run.device = auto counts as cpu (engine/device_choice.hpp resolves it).
RunShape run_shape(const Options& options, const Architecture& architecture, std::int64_t sequence, std::int64_t world,
                   std::int64_t ranks_per_node);

/// Schedule and plan of a run, before anything is allocated.
struct PlannedRun {
  StepSchedule schedule;  ///< its model says architecture, micro-batch and sequence
  MemoryPlan plan;
};

/// Declares, builds and plans. UsageError where the policy is impossible.
PlannedRun plan_shape(const RunShape& shape, const MemoryPlanOptions& options = {});

/// The same run under another strategy; what that strategy does not use is left at its defaults.
RunShape with_strategy(RunShape shape, Strategy strategy);

/// One changed option with which the run fits.
struct FitChange {
  std::string option;      ///< "memory.checkpoint=block"
  std::int64_t bytes = 0;  ///< needed with it
};

struct FitAnswer {
  std::int64_t needed = 0, allowed = 0;  ///< bytes per rank (limited_bytes)
  std::string peak;                      ///< "backward h.11.mlp", or "head"
  std::vector<FitChange> changes;        ///< least cost first; empty if it fits, or if no single option helps
  std::string together;                  ///< where no single option helps: several at once that do, in words
  std::string smallest;                  ///< where those do not help either: the least that was found, in words
  bool fits() const { return needed <= allowed; }
};

/// Plans the run and, where it needs more than `allowed` bytes per rank, one changed option after the other:
/// checkpoints written in the step, one gathered unit at a time, activation checkpointing, strategies that shard more,
/// a smaller micro-batch (the largest that fits), bf16. Where none is enough, all combinations of these.
FitAnswer examine_fit(const RunShape& shape, std::int64_t allowed);

/// The same for a run that is planned already.
FitAnswer examine_fit(const RunShape& shape, const StepSchedule& schedule, const MemoryPlan& plan,
                      std::int64_t allowed);

/// "needs 31.2 GB a rank, 24.0 GB allowed: 7.2 GB too much (peak at backward h.11.mlp). Would fit: ...", or "needs ...:
/// fits".
std::string describe_fit(const FitAnswer& answer);

/// How the message of require_fit is told from others.
inline constexpr std::string_view kDoesNotFit = "the run does not fit in it";

/// UsageError with that text when the run does not fit; `limit_name` says whose limit it is ("plan.memory = 24.0 GB").
void require_fit(const FitAnswer& answer, const std::string& limit_name);

}  // namespace tessera
