#pragma once
// Which storages may not share bytes, and how heavy a set of such storages can be.

#include <cstdint>
#include <vector>

#include "schedule/liveness.hpp"
#include "schedule/order.hpp"

namespace tessera {

/// True if `a` is wholly done before `b` begins, in this segment.
bool wholly_before(const SegmentOrder& order, const Presence& a, const Presence& b);

/// Per storage: the storages of the same region that it may not overlap.
struct Conflicts {
  std::vector<std::vector<StorageId>> of;
};

struct SegmentView {
  SegmentOrder order;
  std::vector<Presence> present;
};

/// One region of one place.
struct RegionKey {
  Place place = Place::device;
  RegionKind kind = RegionKind::private_;
  bool holds(const Storage& storage) const { return storage.place == place && storage.region == kind; }
};

std::vector<SegmentView> view_segments(const StepSchedule& schedule);
Conflicts find_conflicts(const StepSchedule& schedule, const std::vector<SegmentView>& views);

/// The heaviest set of pairwise unordered storages of `region` in one segment: an exact lower bound of the region's
/// size. "Wholly before" is a partial order, so by Dilworth's theorem (weighted) this is the total weight less a
/// maximum flow in the bipartite graph of its comparable pairs.
std::int64_t heaviest_antichain(const StepSchedule& schedule, const SegmentView& view, RegionKey region);

/// Bytes as planned: rounded up to the storages' alignment.
std::int64_t planned_bytes(const Storage& storage);

}  // namespace tessera
