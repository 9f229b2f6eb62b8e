#include "engine/poison.hpp"

#include <algorithm>

namespace tessera {

void poison_regions(const Resources& all, Stream& stream) {
  for (const RegionKind kind : {RegionKind::private_, RegionKind::shared})
    all.device->fill_nan(stream, all.memory->region(kind, MemorySpace::device));
}

IndexedVector<OperationId, std::vector<StorageId>> passing_storages(const StepSchedule& schedule) {
  IndexedVector<OperationId, std::vector<StorageId>> passing(schedule.operations.size());
  for (const OperationId id : passing.ids()) {
    for (const ValueId v : touched_values(schedule.operations[id])) {
      const StorageId storage = schedule.value(v).storage;
      const bool stays = schedule.storage(storage).carried || schedule.storage(storage).always_live;
      if (stays || std::find(passing[id].begin(), passing[id].end(), storage) != passing[id].end()) continue;
      passing[id].push_back(storage);
    }
  }
  return passing;
}

}  // namespace tessera
