#pragma once
// Which storages may not share bytes, and how heavy a set of such storages can be.

#include <cstdint>
#include <vector>

#include "schedule/liveness.hpp"
#include "schedule/order.hpp"

namespace tessera {

/// The storages of the same region that a storage may not overlap.
struct Conflicts {
  IndexedVector<StorageId, std::vector<StorageId>> of;
};

struct SegmentView {
  SegmentOrder order;
  std::vector<Presence> present;
};

using SegmentViews = IndexedVector<SegmentId, SegmentView>;

/// One region of one memory space.
struct RegionKey {
  MemorySpace space = MemorySpace::device;
  RegionKind kind = RegionKind::private_;
  bool holds(const Storage& storage) const { return storage.space == space && storage.region == kind; }
};

SegmentViews view_segments(const StepSchedule& schedule);
Conflicts find_conflicts(const StepSchedule& schedule, const SegmentViews& views);

/// Returns the weight of a set of storages of `region` of which no two may overlap, in whatever segments they meet. It
/// is a lower bound of the region's size, though not the best one, because sets are grown from the largest storages.
std::int64_t heavy_clique(const StepSchedule& schedule, const Conflicts& conflicts, RegionKey region);

/// Returns bytes as planned: rounded up to the storages' alignment.
std::int64_t planned_bytes(const Storage& storage);

}  // namespace tessera
