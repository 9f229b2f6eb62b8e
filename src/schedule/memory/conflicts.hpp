#pragma once
// Which storages may not share bytes, and how heavy a set of such storages can be.

#include <cstdint>
#include <vector>

#include "schedule/liveness.hpp"
#include "schedule/order.hpp"

namespace tessera {

/// Returns whether `a` is wholly done before `b` begins, in this segment.
bool wholly_before(const SegmentOrder& order, const Presence& a, const Presence& b);

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

/// Returns the weight of the heaviest set of pairwise unordered storages of `region` in one segment. It is an exact
/// lower bound of the region's size. "Wholly before" is a partial order, so Dilworth's theorem (weighted) applies. The
/// weight is the total less a maximum flow in the bipartite graph of comparable pairs.
std::int64_t heaviest_antichain(const StepSchedule& schedule, const SegmentView& view, RegionKey region);

/// Returns the weight of a set of storages of `region` of which no two may overlap, in whatever segments they meet. It
/// is a lower bound too, and not the best: sets are grown from the largest storages.
std::int64_t heavy_clique(const StepSchedule& schedule, const Conflicts& conflicts, RegionKey region);

/// Returns bytes as planned: rounded up to the storages' alignment.
std::int64_t planned_bytes(const Storage& storage);

}  // namespace tessera
