#pragma once
// Schedules and their memory as human-readable text. Every function returns whole lines of UTF-8 text.

#include <map>
#include <string>
#include <vector>

#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Returns the operations, one per line, by segment: the queue, what it does with which unit or part, what it reads and
/// writes, after which operations it runs (with the reason where no data requires it), "(last)" where a value is
/// released, the bytes alive while it runs, and the bytes that a rank sends.
std::string print_schedule(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns the units: tensors, elements, padding, and the share of each rank.
std::string print_units(const StepSchedule& schedule);

/// Returns memory by category at the peak and at each category's own, regions against their lower bounds, and the price
/// of accumulators. Then follow the bytes sent per step and rank: by the formula, less what is saved.
std::string print_memory(const StepSchedule& schedule, const MemoryPlan& plan);

/// One strategy of a comparison: a schedule with its plan, or why there is none.
struct StrategyRow {
  Strategy strategy = Strategy::zero3;
  bool chosen = false;
  std::string impossible;    ///< empty if schedule and plan are there
  std::string_view repeats;  ///< the strategy that does the same in one shard group of all ranks
  StepSchedule schedule;
  MemoryPlan plan;
};

/// Collectives of one kind and group in a step.
struct Traffic {
  std::string name;  ///< "all-gather of parameters"
  Group group = Group::world;
  std::int64_t ranks = 1, calls = 0, bytes = 0;  ///< sent per rank
  bool in_formula = true;                        ///< scalar reductions are not
};

/// Returns what a step's collectives over more than one rank send, by name.
std::vector<Traffic> traffic_of(const StepSchedule& schedule);

/// Returns the bytes on the host by the first words of the storages' names.
std::map<std::string, std::int64_t> host_memory(const StepSchedule& schedule);

/// Returns the part of limited_bytes() that is in the host's memory; it counts where device and host are one.
std::int64_t limited_host_bytes(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns "parameters 497 MB, activations 12 MB": the contents of a rank's device memory at its peak.
std::string describe_peak(const MemoryPlan& plan);

/// Returns what is kept on the host and how much of each, by the first words of the storages' names, for example
/// "snapshot 1.49 GB"; empty if there is nothing.
std::string describe_host_memory(const StepSchedule& schedule);

/// Returns all rows side by side: memory by category at the peak. Together with the memory that is idle at the peak,
/// this adds up to everything that is allocated.
std::string print_strategy_table(const std::vector<StrategyRow>& rows);

/// Returns the same rows, with each category at its own peak, as ZeRO's formulas count it, and with bytes sent and
/// collectives per step and rank.
std::string print_strategy_peaks(const std::vector<StrategyRow>& rows);

/// Collectives over more than one rank that a step plays, scalar reductions included.
std::int64_t collectives_per_step(const StepSchedule& schedule);

/// Returns the bytes of the gradient sums that live from micro-step to micro-step.
std::int64_t accumulator_bytes(const StepSchedule& schedule);

/// Returns "zero3 over 8 ranks", "hsdp over 16 ranks (2 replicas of shard groups of 8)"; remarks on a single replica.
std::string describe_grid(const StepSchedule& schedule);

/// Returns what run.replay_every = `every` (above 0) costs, and after how many steps all ranks have been compared.
std::string describe_replays(const StepSchedule& schedule, std::int64_t every);

/// Returns an operation in two words: "backward h.11.mlp", "reduce-scatter h.3".
std::string describe_operation(const StepSchedule& schedule, OperationId id);

}  // namespace tessera
