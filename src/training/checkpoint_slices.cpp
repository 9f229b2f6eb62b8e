#include "training/checkpoint_slices.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<TensorRecord> state_records(const StepSchedule& schedule) {
  return tensor_records(schedule.model.tensors, schedule.policy.optimizer, schedule.policy.moments);
}

std::vector<OwnedRun> owned_runs(const StepSchedule& schedule, std::int64_t rank, StateKind kind) {
  const std::vector<TensorRecord> tensors = state_records(schedule);
  const TensorId first_tensor = schedule.model.first_trained_tensor();
  std::vector<OwnedRun> owned;
  std::int64_t file_offset = 0;
  for (const UnitId id : schedule.layout.trained()) {
    const Unit& unit = schedule.unit(id);
    const std::int64_t held = schedule.state[id].elements;
    const std::int64_t members = unit.padded / held;  // ranks that together hold the unit
    const std::int64_t share = unit.padded / schedule.grid.world();
    TESSERA_ASSERT(members * held == unit.padded && share * schedule.grid.world() == unit.padded &&
                       schedule.grid.world() % members == 0,
                   "unit {} of {} elements over {} ranks", unit.name, unit.padded, schedule.grid.world());
    const std::int64_t in_slice = rank / members * share;  // holders of a slice are `members` ranks apart
    const std::int64_t first = rank % members * held + in_slice;
    for (const TensorRun& run : runs_in_slice(schedule.model, unit, first, share)) {
      const std::int64_t number = run.tensor - first_tensor;
      if (!tensors[static_cast<std::size_t>(number)].keeps(kind)) continue;
      owned.push_back({{number, run.first, run.count}, id, in_slice + run.offset, file_offset});
      file_offset += run.count;
    }
  }
  return owned;
}

}  // namespace tessera
