#include "engine/fill.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/backend/region.hpp"

namespace tessera {

namespace {

/// The host accesses its own regions directly, also pinned ones.
void fill_region(const Resources& all, Stream& stream, RegionKind kind, MemorySpace space) {
  const std::span<std::byte> region = all.memory->region(kind, space);
  if (region.empty()) return;
  if (space == MemorySpace::host) return fill_pattern(region);
  all.device->fill_pattern(stream, region);
}

}  // namespace

void fill_at_rest(const Resources& all, const StepSchedule& schedule, std::initializer_list<MemorySpace> spaces) {
  const auto stream = all.device->make_stream("fill");
  for (const MemorySpace space : spaces) {
    fill_region(all, *stream, RegionKind::at_rest, space);
    for (const StorageId id : schedule.storages.ids()) {
      const Storage& storage = schedule.storage(id);
      if (storage.space != space || !is_state(storage)) continue;
      if (space == MemorySpace::host) {
        std::memset(all.address(id), 0, static_cast<std::size_t>(storage.bytes));
      } else {
        all.compute->kernels(Queue::compute).fill_zero(*stream, all.address(id), storage.bytes);
      }
    }
  }
  stream->synchronize();
}

void fill_passing(const Resources& all, Stream& stream, std::initializer_list<MemorySpace> spaces) {
  for (const MemorySpace space : spaces) {
    for (const RegionKind kind : {RegionKind::private_, RegionKind::shared}) fill_region(all, stream, kind, space);
  }
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
