#pragma once
// Schedules and their memory for people. Every function returns whole lines of UTF-8 text.

#include <string>
#include <vector>

#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

/// The operations, one a line, by segment: lane, what it does of which unit or part, after which operations (with the
/// reason where no data asks for it), what it reads and writes, "(last)" where a value is released, bytes alive while
/// it runs, bytes that a rank sends.
std::string print_schedule(const StepSchedule& schedule, const MemoryPlan& plan);

/// Units: tensors, elements, padding, the share of a rank.
std::string print_units(const StepSchedule& schedule);

/// Memory by category at the peak and at each category's own, regions against their lower bounds, the price of
/// accumulators, bytes sent per step and rank: by the formula, less what is saved.
std::string print_memory(const StepSchedule& schedule, const MemoryPlan& plan);

/// One strategy of a comparison: a schedule with its plan, or why there is none.
struct StrategyRow {
  Strategy strategy = Strategy::zero3;
  bool chosen = false;
  std::string impossible;  ///< empty if schedule and plan are there
  StepSchedule schedule;
  MemoryPlan plan;
};

/// What lies on the host and how much of each, by the first words of the storages' names: "snapshot 1.49 GB"; empty if
/// nothing does.
std::string describe_host_memory(const StepSchedule& schedule);

/// All rows side by side: memory by category at the peak, which adds up, with what is idle then, to all that is
/// allocated.
std::string print_strategy_table(const std::vector<StrategyRow>& rows);

/// The same rows: each category at its own peak, as ZeRO's formulas count, bytes sent and collectives per step and
/// rank.
std::string print_strategy_peaks(const std::vector<StrategyRow>& rows);

/// Collectives over more than one rank that a step plays, scalar reductions included.
std::int64_t collectives_per_step(const StepSchedule& schedule);

/// Bytes of the gradient sums that live from micro-step to micro-step.
std::int64_t accumulator_bytes(const StepSchedule& schedule);

/// "zero3 over 8 ranks", "hsdp over 16 ranks (2 replicas of shard groups of 8)"; a single replica is remarked on.
std::string describe_grid(const StepSchedule& schedule);

/// "backward h.11.mlp", "reduce-scatter h.3": an operation in two words.
std::string describe_operation(const StepSchedule& schedule, OperationId id);

}  // namespace tessera
