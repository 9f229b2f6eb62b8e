#include "schedule/memory/conflicts.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "tessera/base/math.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

std::int64_t planned_bytes(const Storage& storage) { return round_up(storage.bytes, kStorageAlignment); }

bool wholly_before(const SegmentOrder& order, const Presence& a, const Presence& b) {
  if (a.live_at_exit || b.live_at_entry) return false;
  // Happens-before implies list order: most pairs are settled by their ends.
  if (!a.touches.empty() && !b.touches.empty() && a.touches.back() >= b.touches.front()) return false;
  return order.all_before(a.touches, b.touches);
}

SegmentViews view_segments(const StepSchedule& schedule) {
  auto presence = presence_of(schedule);
  SegmentViews views;
  for (const SegmentId id : schedule.segments.ids())
    views.push_back({SegmentOrder(schedule, schedule.segments[id]), std::move(presence[id])});
  return views;
}

namespace {

/// When a storage is present, in list order: whoever begins at `end` or later comes wholly after it.
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

/// Dinic's maximum flow on a small dense-ish graph with 64-bit capacities.
class MaximumFlow {
 public:
  explicit MaximumFlow(int nodes) : graph_(static_cast<std::size_t>(nodes)) {}

  void edge(int from, int to, std::int64_t capacity) {
    graph_[static_cast<std::size_t>(from)].push_back(
        {to, static_cast<int>(graph_[static_cast<std::size_t>(to)].size()), capacity});
    graph_[static_cast<std::size_t>(to)].push_back(
        {from, static_cast<int>(graph_[static_cast<std::size_t>(from)].size()) - 1, 0});
  }

  std::int64_t run(int source, int sink) {
    std::int64_t flow = 0;
    while (levels(source, sink)) {
      next_.assign(graph_.size(), 0);
      while (const std::int64_t pushed = push(source, sink, std::numeric_limits<std::int64_t>::max())) flow += pushed;
    }
    return flow;
  }

 private:
  struct Arc {
    int to, reverse;
    std::int64_t capacity;
  };

  bool levels(int source, int sink) {
    level_.assign(graph_.size(), -1);
    level_[static_cast<std::size_t>(source)] = 0;
    std::queue<int> queue;
    queue.push(source);
    while (!queue.empty()) {
      const int node = queue.front();
      queue.pop();
      for (const Arc& arc : graph_[static_cast<std::size_t>(node)]) {
        if (arc.capacity <= 0 || level_[static_cast<std::size_t>(arc.to)] >= 0) continue;
        level_[static_cast<std::size_t>(arc.to)] = level_[static_cast<std::size_t>(node)] + 1;
        queue.push(arc.to);
      }
    }
    return level_[static_cast<std::size_t>(sink)] >= 0;
  }

  std::int64_t push(int node, int sink, std::int64_t limit) {
    if (node == sink) return limit;
    auto& arcs = graph_[static_cast<std::size_t>(node)];
    for (auto& i = next_[static_cast<std::size_t>(node)]; i < arcs.size(); ++i) {
      Arc& arc = arcs[i];
      if (arc.capacity <= 0 || level_[static_cast<std::size_t>(arc.to)] != level_[static_cast<std::size_t>(node)] + 1)
        continue;
      const std::int64_t pushed = push(arc.to, sink, std::min(limit, arc.capacity));
      if (pushed == 0) continue;
      arc.capacity -= pushed;
      graph_[static_cast<std::size_t>(arc.to)][static_cast<std::size_t>(arc.reverse)].capacity += pushed;
      return pushed;
    }
    return 0;
  }

  std::vector<std::vector<Arc>> graph_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

}  // namespace

std::int64_t heaviest_antichain(const StepSchedule& schedule, const SegmentView& view, RegionKey region) {
  std::vector<const Presence*> nodes;
  std::int64_t always = 0, total = 0;
  for (const Presence& p : view.present) {
    const Storage& storage = schedule.storage(p.storage);
    if (!region.holds(storage)) continue;
    if (p.live_at_entry && p.live_at_exit) {  // unordered with everything
      always += planned_bytes(storage);
    } else {
      nodes.push_back(&p);
      total += planned_bytes(storage);
    }
  }
  const int n = static_cast<int>(nodes.size());
  MaximumFlow flow(2 * n + 2);
  const int source = 2 * n, sink = 2 * n + 1;
  for (int i = 0; i < n; ++i) {
    const std::int64_t bytes = planned_bytes(schedule.storage(nodes[static_cast<std::size_t>(i)]->storage));
    flow.edge(source, i, bytes);
    flow.edge(n + i, sink, bytes);
    for (int j = 0; j < n; ++j) {
      if (i != j &&
          wholly_before(view.order, *nodes[static_cast<std::size_t>(i)], *nodes[static_cast<std::size_t>(j)])) {
        flow.edge(i, n + j, std::numeric_limits<std::int64_t>::max() / 4);
      }
    }
  }
  return always + total - flow.run(source, sink);
}

namespace {

/// Returns the weight of the set that begins with `seed` and takes each candidate that conflicts with all before it.
std::int64_t grow_clique(const StepSchedule& schedule, const Conflicts& conflicts, StorageId seed,
                         const std::vector<StorageId>& candidates) {
  IndexedVector<StorageId, std::int32_t> met(schedule.storages.size(), 0);  // members that a storage conflicts with
  IndexedVector<StorageId, StorageId> met_last(schedule.storages.size());
  std::int32_t members = 0;
  std::int64_t weight = 0;
  const auto add = [&](StorageId member) {
    ++members, weight += planned_bytes(schedule.storage(member));
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
  constexpr std::size_t kSeeds = 16;
  std::vector<StorageId> by_size;
  for (const StorageId id : schedule.storages.ids()) {
    if (region.holds(schedule.storage(id))) by_size.push_back(id);
  }
  std::ranges::stable_sort(by_size, std::ranges::greater(), [&](StorageId id) { return schedule.storage(id).bytes; });
  std::vector<StorageId> by_conflicts = by_size;
  std::ranges::stable_sort(by_conflicts, std::ranges::greater(), [&](StorageId id) { return conflicts.of[id].size(); });
  std::int64_t heaviest = 0;
  for (std::size_t i = 0; i < std::min(kSeeds, by_size.size()); ++i) {
    for (const auto* candidates : {&by_size, &by_conflicts})
      heaviest = std::max(heaviest, grow_clique(schedule, conflicts, by_size[i], *candidates));
  }
  return heaviest;
}

}  // namespace tessera
