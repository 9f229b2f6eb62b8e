#pragma once
// The elements that each rank writes: every element is written once, by one of the ranks that hold it. This is a pure
// function of schedule and rank, so that nothing is exchanged to plan a checkpoint.

#include <cstdint>
#include <vector>

#include "tessera/checkpoint/records.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// A run that a rank writes, and its offset in the rank's slice of its unit.
struct OwnedRun {
  ElementRun run;
  UnitId unit;
  std::int64_t offset = 0;       ///< elements from the start of the rank's slice
  std::int64_t file_offset = 0;  ///< elements from the start of the rank's output
};

/// Returns the records of the schedule's tensors.
std::vector<TensorRecord> state_records(const StepSchedule& schedule);

/// Returns the runs of a rank that have such a state, in the order of units and offsets. Ranks that hold the same slice
/// of a unit share it evenly. Rank r of W writes padded / W elements of each unit, less the padding among them.
std::vector<OwnedRun> owned_runs(const StepSchedule& schedule, std::int64_t rank,
                                 StateKind kind = StateKind::parameter);

}  // namespace tessera
