#pragma once
// Which storages may be poisoned: tests fill memory with NaN once nothing in a segment needs it any more.

#include <algorithm>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Returns, for each operation, the storages that it touches and that do not outlive the segment.
inline IndexedVector<OperationId, std::vector<StorageId>> passing_storages(const StepSchedule& schedule) {
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
