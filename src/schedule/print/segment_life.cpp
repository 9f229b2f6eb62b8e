#include "schedule/print/segment_life.hpp"

namespace tessera {

SegmentLife::SegmentLife(const StepSchedule& schedule, const Segment& segment, const std::vector<Presence>& present)
    : first_(segment.first), alive_(static_cast<std::size_t>(segment.count) + 1, 0) {
  for (const Presence& p : present) {
    const Storage& storage = schedule.storage(p.storage);
    const std::int64_t bytes = storage.space == MemorySpace::device ? storage.bytes : 0;
    alive_[static_cast<std::size_t>(p.first_in(segment) - first_)] += bytes;
    alive_[static_cast<std::size_t>(p.last_in(segment) - first_) + 1] -= bytes;
    if (!p.live_at_exit && !p.touches.empty()) released_by_.emplace(p.storage, p.touches.back());
  }
  for (std::size_t i = 1; i < alive_.size(); ++i) alive_[i] += alive_[i - 1];
}

std::int64_t SegmentLife::alive_bytes(OperationId id) const { return alive_[static_cast<std::size_t>(id - first_)]; }

bool SegmentLife::releases(OperationId id, StorageId storage) const { return released_by_.contains({storage, id}); }

}  // namespace tessera
