#include "tessera/schedule/memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "schedule/liveness.hpp"
#include "schedule/memory/conflicts.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

std::int64_t SpacePlan::total() const {
  return std::accumulate(regions.begin(), regions.end(), std::int64_t{0},
                         [](std::int64_t sum, const RegionPlan& region) { return sum + region.bytes; });
}

std::int64_t SpacePlan::lower_bound() const {
  return std::accumulate(regions.begin(), regions.end(), std::int64_t{0},
                         [](std::int64_t sum, const RegionPlan& region) { return sum + region.lower_bound; });
}

std::int64_t SpacePlan::live_at_peak() const {
  return std::accumulate(at_peak.begin(), at_peak.end(), std::int64_t{0});
}

std::int64_t MemoryPlan::total() const { return at(MemorySpace::device).total() + at(MemorySpace::host).total(); }

std::int64_t MemoryPlan::lower_bound() const {
  return at(MemorySpace::device).lower_bound() + at(MemorySpace::host).lower_bound();
}

double MemoryPlan::fragmentation() const {
  return lower_bound() > 0 ? static_cast<double>(total()) / static_cast<double>(lower_bound()) - 1.0 : 0.0;
}

namespace {

/// Places storages one after the other at the lowest address that no conflicting, already placed storage occupies.
class Placer {
 public:
  Placer(const StepSchedule& schedule, const Conflicts& conflicts) : schedule_(schedule), conflicts_(conflicts) {
    for (const Storage& storage : schedule.storages) bytes_.push_back(planned_bytes(storage));
  }

  /// Returns the region's size; fills `offset` of the storages in `order`.
  std::int64_t place(const std::vector<StorageId>& order, IndexedVector<StorageId, std::int64_t>& offset) {
    for (const StorageId id : order) offset[id] = -1;
    std::int64_t end = 0;
    for (const StorageId id : order) {
      taken_.clear();
      for (const StorageId other : conflicts_.of[id]) {
        const std::int64_t at = offset[other];
        if (at >= 0) taken_.emplace_back(at, at + bytes_[other]);
      }
      std::sort(taken_.begin(), taken_.end());
      std::int64_t at = 0;
      for (const auto& [begin, stop] : taken_) {
        if (begin - at >= bytes_[id]) break;
        at = std::max(at, stop);
      }
      offset[id] = at;
      end = std::max(end, at + bytes_[id]);
    }
    return end;
  }

 private:
  const StepSchedule& schedule_;
  const Conflicts& conflicts_;
  IndexedVector<StorageId, std::int64_t> bytes_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
};

/// First and last operation that touch a storage, over all segments: its lifetime in list order.
struct Lifetime {
  OperationId first, last;
};

IndexedVector<StorageId, Lifetime> lifetimes_of(const StepSchedule& schedule, const SegmentViews& views) {
  IndexedVector<StorageId, Lifetime> result(schedule.storages.size(), {schedule.operations.end_id(), {}});
  for (const SegmentId i : views.ids()) {
    const Segment& segment = schedule.segments[i];
    for (const Presence& p : views[i].present) {
      Lifetime& life = result[p.storage];
      life.first = std::min(life.first, p.first_in(segment));
      life.last = std::max(life.last, p.last_in(segment));
    }
  }
  return result;
}

/// Returns the largest sum of a region alive at one operation in list order, a lower bound that is quick to compute.
std::int64_t largest_sum(const StepSchedule& schedule, const SegmentViews& views, RegionKey region) {
  std::int64_t peak = 0;
  for (const SegmentId i : views.ids()) {
    const auto alive = alive_in(schedule.segments[i], views[i].present, [&](StorageId id) {
      const Storage& storage = schedule.storage(id);
      return region.holds(storage) ? planned_bytes(storage) : 0;
    });
    peak = std::max(peak, std::ranges::max(alive));
  }
  return peak;
}

void plan_region(const StepSchedule& schedule, const SegmentViews& views, const Conflicts& conflicts,
                 const IndexedVector<StorageId, Lifetime>& lifetimes, RegionKey region,
                 const MemoryPlanOptions& options, MemoryPlan& plan) {
  std::vector<StorageId> members;
  for (const StorageId id : schedule.storages.ids()) {
    if (region.holds(schedule.storage(id))) members.push_back(id);
  }
  RegionPlan& result =
      plan.spaces[static_cast<std::size_t>(region.space)].regions[static_cast<std::size_t>(region.kind)];
  if (members.empty()) return;
  result.lower_bound = largest_sum(schedule, views, region);
  Placer placer(schedule, conflicts);
  auto bytes = [&](StorageId id) { return planned_bytes(schedule.storage(id)); };
  auto duration = [&](StorageId id) {
    const Lifetime& life = lifetimes[id];
    return life.last - life.first + 1;
  };

  IndexedVector<StorageId, std::int64_t> best_offset = plan.offset, offset = plan.offset;
  std::vector<StorageId> best_order;
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  auto attempt = [&](const std::vector<StorageId>& order) {
    const std::int64_t size = placer.place(order, offset);
    if (size > best) return false;
    best = size;
    best_offset = offset;
    best_order = order;
    return true;
  };
  auto by = [&](auto less) {
    if (best <= result.lower_bound) return;  // nothing is better than the bound
    std::vector<StorageId> order = members;
    std::stable_sort(order.begin(), order.end(), less);
    attempt(order);
  };
  by([&](StorageId a, StorageId b) { return bytes(a) > bytes(b); });
  by([&](StorageId a, StorageId b) {
    return static_cast<double>(bytes(a)) * static_cast<double>(duration(a)) >
           static_cast<double>(bytes(b)) * static_cast<double>(duration(b));
  });
  by([&](StorageId a, StorageId b) { return lifetimes[a].first < lifetimes[b].first; });
  by([&](StorageId a, StorageId b) { return duration(a) > duration(b); });
  const auto weight = [&](StorageId id) {  // a storage that crosses borders meets others in other segments too
    return static_cast<double>(bytes(id)) * static_cast<double>(conflicts.of[id].size());
  };
  by([&](StorageId a, StorageId b) { return weight(a) > weight(b); });

  const auto good_enough = [&] { return result.lower_bound + result.lower_bound / 100; };
  if (options.clique_bound && best > good_enough())
    result.lower_bound = std::max(result.lower_bound, heavy_clique(schedule, conflicts, region));

  // Local search: move one storage to another place in the order, and keep the result if it is not worse. Every second
  // time it is one that ends where the region does, because the region cannot shrink while that stays.
  std::mt19937_64 random(1);
  std::int64_t effort_of_trial = 1;
  for (const StorageId id : members) effort_of_trial += static_cast<std::int64_t>(conflicts.of[id].size()) + 1;
  for (std::int64_t left = options.search_effort / effort_of_trial; best > good_enough() && left > 0; --left) {
    std::vector<StorageId> trial = best_order;
    auto from = random() % trial.size();
    if (left % 2 == 0) {
      const auto ends_region = [&](StorageId id) { return best_offset[id] + bytes(id) == best; };
      from = static_cast<std::size_t>(std::ranges::find_if(trial, ends_region) - trial.begin());
    }
    const auto to = random() % (from + 1);
    const StorageId moved = trial[from];
    trial.erase(trial.begin() + static_cast<std::ptrdiff_t>(from));
    trial.insert(trial.begin() + static_cast<std::ptrdiff_t>(to), moved);
    attempt(trial);
  }
  plan.offset = best_offset;
  result.bytes = best;
}

/// Accounts for what a memory space holds at each time.
void account(const StepSchedule& schedule, const SegmentViews& views, MemorySpace space, SpacePlan& plan) {
  std::int64_t peak = -1;
  for (const SegmentId view : views.ids()) {
    const Segment& segment = schedule.segments[view];
    // Changes of each category at each operation, in list order.
    std::vector<CategoryBytes> change(static_cast<std::size_t>(segment.count) + 1, CategoryBytes{});
    for (const Presence& p : views[view].present) {
      const Storage& storage = schedule.storage(p.storage);
      if (storage.space != space) continue;
      const auto category = static_cast<std::size_t>(storage.category);
      change[static_cast<std::size_t>(p.first_in(segment) - segment.first)][category] += storage.bytes;
      change[static_cast<std::size_t>(p.last_in(segment) - segment.first) + 1][category] -= storage.bytes;
    }
    CategoryBytes now{};
    for (std::int64_t i = 0; i < segment.count; ++i) {
      for (std::size_t c = 0; c < kCategories; ++c) {
        now[c] += change[static_cast<std::size_t>(i)][c];
        plan.own_peak[c] = std::max(plan.own_peak[c], now[c]);
      }
      const std::int64_t sum = std::accumulate(now.begin(), now.end(), std::int64_t{0});
      if (sum > peak) {
        peak = sum;
        plan.at_peak = now;
        plan.peak_operation = segment.first + i;
      }
    }
  }
}

}  // namespace

MemoryPlan plan_memory(const StepSchedule& schedule, const MemoryPlanOptions& options) {
  const SegmentViews views = view_segments(schedule);
  const Conflicts conflicts = find_conflicts(schedule, views);
  const IndexedVector<StorageId, Lifetime> lifetimes = lifetimes_of(schedule, views);
  MemoryPlan plan;
  plan.offset.assign(schedule.storages.size(), 0);
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
    for (const RegionKind kind : {RegionKind::at_rest, RegionKind::shared, RegionKind::private_})
      plan_region(schedule, views, conflicts, lifetimes, {space, kind}, options, plan);
    account(schedule, views, space, plan.spaces[static_cast<std::size_t>(space)]);
  }
  return plan;
}

std::int64_t limited_bytes(const StepSchedule& schedule, const MemoryPlan& plan) {
  if (copies_in_steps(schedule)) return plan.at(MemorySpace::device).total();
  return kernel_needs(schedule.model.device)
      .limited(plan.at(MemorySpace::device).total(), plan.at(MemorySpace::host).total());
}

std::int64_t machine_bytes(const StepSchedule& schedule, const MemoryPlan& plan) {
  const bool has_own = traits_of(schedule.model.device).has_own_memory;
  return plan.at(MemorySpace::host).total() + (has_own ? 0 : plan.at(MemorySpace::device).total());
}

std::vector<std::string> check_memory_plan(const StepSchedule& schedule, const MemoryPlan& plan) {
  std::vector<std::string> problems;
  const Conflicts conflicts = find_conflicts(schedule, view_segments(schedule));
  for (const StorageId a : schedule.storages.ids()) {
    const Storage& sa = schedule.storage(a);
    const std::int64_t at = plan.offset[a];
    if (at < 0 || at % kStorageAlignment != 0 || at + sa.bytes > plan.region(sa.space, sa.region).bytes) {
      problems.push_back(fmt::format("{} lies outside its region or is not aligned", sa.name));
    }
    for (const StorageId b : conflicts.of[a]) {
      if (b <= a) continue;
      const Storage& sb = schedule.storage(b);
      const std::int64_t bt = plan.offset[b];
      if (at < bt + sb.bytes && bt < at + sa.bytes) {
        problems.push_back(fmt::format("{} and {} share bytes and may be alive together", sa.name, sb.name));
      }
    }
  }
  return problems;
}

}  // namespace tessera
