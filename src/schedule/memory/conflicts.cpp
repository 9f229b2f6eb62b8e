#include "schedule/memory/conflicts.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/math.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

std::int64_t planned_bytes(const Storage& storage) { return round_up(storage.bytes, kStorageAlignment); }

SegmentViews view_segments(const StepSchedule& schedule) {
  auto presence = presence_of(schedule);
  SegmentViews views;
  for (const SegmentId id : schedule.segments.ids())
    views.push_back({SegmentOrder(schedule, schedule.segments[id]), std::move(presence[id])});
  return views;
}

namespace {

/// Returns whether `a` is wholly done before `b` begins, in this segment.
bool wholly_before(const SegmentOrder& order, const Presence& a, const Presence& b) {
  if (a.live_at_exit || b.live_at_entry) return false;
  // Happens-before implies list order, so most pairs are settled by their ends.
  if (!a.touches.empty() && !b.touches.empty() && a.touches.back() >= b.touches.front()) return false;
  return order.all_before(a.touches, b.touches);
}

/// When a storage is present, in list order: one that begins at `end` or later comes wholly after it.
struct Interval {
  OperationId begin, end;
  const Presence* presence = nullptr;
};

std::vector<Interval> intervals_of(const StepSchedule& schedule, const SegmentView& view, const Segment& segment,
                                   RegionKey region) {
  std::vector<Interval> intervals;
  for (const Presence& p : view.present) {
    if (!region.holds(schedule.storage(p.storage))) continue;
    intervals.push_back({p.live_at_entry || p.touches.empty() ? segment.first - 1 : p.touches.front(),
                         p.live_at_exit ? segment.first + segment.count : view.order.all_after(p.touches), &p});
  }
  std::ranges::stable_sort(intervals, {}, &Interval::begin);
  return intervals;
}

}  // namespace

Conflicts find_conflicts(const StepSchedule& schedule, const SegmentViews& views) {
  Conflicts conflicts;
  conflicts.of.resize(schedule.storages.size());
  const auto add = [&](StorageId a, StorageId b) {
    conflicts.of[a].push_back(b);
    conflicts.of[b].push_back(a);
  };
  for (const SegmentId s : views.ids()) {
    for (const RegionKind region : {RegionKind::at_rest, RegionKind::shared, RegionKind::private_}) {
      for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
        const auto intervals = intervals_of(schedule, views[s], schedule.segments[s], {space, region});
        for (auto a = intervals.begin(); a != intervals.end(); ++a) {
          for (auto b = std::next(a); b != intervals.end() && b->begin < a->end; ++b) {
            if (!wholly_before(views[s].order, *a->presence, *b->presence))
              add(a->presence->storage, b->presence->storage);
          }
        }
      }
    }
  }
  IndexedVector<StorageId, int> segments(schedule.storages.size(), 0);
  for (const SegmentView& view : views) {
    for (const Presence& p : view.present) ++segments[p.storage];
  }
  for (const StorageId id : conflicts.of.ids()) {
    if (segments[id] < 2) continue;  // two storages may meet in several segments
    auto& others = conflicts.of[id];
    std::ranges::sort(others);
    others.erase(std::unique(others.begin(), others.end()), others.end());
  }
  return conflicts;
}

namespace {

/// Returns the weight of the set that begins with `seed` and takes each candidate that conflicts with all before it.
/// Subtracts the conflicts that it looks at from `effort`.
std::int64_t grow_clique(const StepSchedule& schedule, const Conflicts& conflicts, StorageId seed,
                         const std::vector<StorageId>& candidates, std::int64_t& effort) {
  IndexedVector<StorageId, std::int32_t> met(schedule.storages.size(), 0);  // members that a storage conflicts with
  IndexedVector<StorageId, StorageId> met_last(schedule.storages.size());
  std::int32_t members = 0;
  std::int64_t weight = 0;
  const auto add = [&](StorageId member) {
    ++members, weight += planned_bytes(schedule.storage(member));
    effort -= static_cast<std::int64_t>(conflicts.of[member].size());
    for (const StorageId other : conflicts.of[member]) {  // may be named several times
      if (std::exchange(met_last[other], member) != member) ++met[other];
    }
  };
  add(seed);
  for (const StorageId candidate : candidates) {
    if (met[candidate] == members && candidate != seed) add(candidate);
  }
  return weight;
}

}  // namespace

std::int64_t heavy_clique(const StepSchedule& schedule, const Conflicts& conflicts, RegionKey region) {
  std::int64_t effort = 10'000'000;  // conflicts looked at: about 0.05 s
  std::vector<StorageId> by_size;
  for (const StorageId id : schedule.storages.ids()) {
    if (region.holds(schedule.storage(id))) by_size.push_back(id);
  }
  std::ranges::stable_sort(by_size, std::ranges::greater(), [&](StorageId id) { return schedule.storage(id).bytes; });
  std::vector<StorageId> by_conflicts = by_size;
  std::ranges::stable_sort(by_conflicts, std::ranges::greater(), [&](StorageId id) { return conflicts.of[id].size(); });
  std::int64_t heaviest = 0;
  for (auto seed = by_size.begin(); seed != by_size.end() && effort > 0; ++seed) {
    for (const auto* candidates : {&by_size, &by_conflicts})
      heaviest = std::max(heaviest, grow_clique(schedule, conflicts, *seed, *candidates, effort));
  }
  return heaviest;
}

}  // namespace tessera
