#include "tessera/schedule/alive.hpp"

#include "schedule/liveness.hpp"

namespace tessera {

IndexedVector<OperationId, CategoryBytes> alive_categories(const StepSchedule& schedule, MemorySpace space) {
  IndexedVector<OperationId, CategoryBytes> alive(schedule.operations.size(), CategoryBytes{});
  const auto presence = presence_of(schedule);
  for (const SegmentId i : schedule.segments.ids()) {
    const Segment& segment = schedule.segments[i];
    for (const Presence& present : presence[i]) {
      const Storage& storage = schedule.storage(present.storage);
      if (storage.space != space) continue;
      const IdRange<OperationId> holds(present.first_in(segment), present.last_in(segment) + 1);
      for (const OperationId id : holds) alive[id][static_cast<std::size_t>(storage.category)] += storage.bytes;
    }
  }
  return alive;
}

}  // namespace tessera
