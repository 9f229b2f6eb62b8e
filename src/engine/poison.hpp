#pragma once
// Memory that is poisoned with NaN while nothing in it is needed, so that reading it shows (tests).

#include "tessera/engine/resources.hpp"

namespace tessera {

/// Poisons the device's private and shared regions, as work of `stream`. Call after collectives have been tried on
/// them, and before anything is played.
void poison_regions(const Resources& all, Stream& stream);

/// Returns, for each operation, the storages that it touches and that do not outlive the segment: those to poison.
IndexedVector<OperationId, std::vector<StorageId>> passing_storages(const StepSchedule& schedule);

}  // namespace tessera
