#pragma once
// The memory plan: an address for every storage, computed from the schedule alone before anything is allocated. Two
// storages may share bytes only if, in every segment in which both are present, every operation on the one happens
// before every operation on the other. Neither list order nor predicted time is enough.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// Storages start on multiples of this many bytes inside their region.
inline constexpr std::int64_t kStorageAlignment = 256;

using CategoryBytes = std::array<std::int64_t, kCategories>;

struct RegionPlan {
  std::int64_t bytes = 0;  ///< to allocate
  /// No plan can be smaller. This is the largest sum alive at one operation in list order. Where `bytes` exceeds it by
  /// more than 1%, it is the weight of a set of storages that must not overlap, if that is larger.
  std::int64_t lower_bound = 0;
};

/// One memory space: its regions, and what is in them at its peak.
struct SpacePlan {
  std::array<RegionPlan, kRegions> regions;
  CategoryBytes at_peak{};   ///< at the operation where the sum is largest: these add up
  CategoryBytes own_peak{};  ///< each category at its own peak: these do not
  OperationId peak_operation;

  std::int64_t total() const;         ///< all regions
  std::int64_t lower_bound() const;   ///< over all regions
  std::int64_t live_at_peak() const;  ///< sum of at_peak
  /// Returns what is allocated but not in use at the peak, because a region may have its own peak at another time.
  std::int64_t idle_at_peak() const { return total() - live_at_peak(); }
};

struct MemoryPlan {
  IndexedVector<StorageId, std::int64_t> offset;  ///< bytes from the start of its region
  std::array<SpacePlan, kMemorySpaces> spaces;

  const SpacePlan& at(MemorySpace space) const { return spaces[static_cast<std::size_t>(space)]; }
  const RegionPlan& region(MemorySpace space, RegionKind kind) const {
    return at(space).regions[static_cast<std::size_t>(kind)];
  }
  std::int64_t total() const;        ///< all regions of both spaces
  std::int64_t lower_bound() const;  ///< over all of them
  double fragmentation() const;      ///< total / lower bound - 1
};

struct MemoryPlanOptions {
  bool clique_bound = true;  ///< if list order leaves more than 1%, look for a set of storages that must not overlap
  /// Local search while a region's fragmentation is above 1%, measured in pairs of storages looked at (about 0.1 s). It
  /// is not measured in seconds because all ranks must come to the same addresses.
  std::int64_t search_effort = 4'000'000;
};
/// Without the search for the last percent: what fits with it also fits with the full plan.
inline constexpr MemoryPlanOptions kQuickPlan{false, 0};

/// Plans all storages of a schedule.
MemoryPlan plan_memory(const StepSchedule& schedule, const MemoryPlanOptions& options = {});

/// Returns the bytes of a plan that must fit into a device's memory. On a GPU those are the device's. A CPU's memory is
/// both memory spaces, so there it is all of them, except with offloading: that stands for a host with a separate
/// device, so these are the device's bytes, and machine_bytes() is what the machine needs.
std::int64_t limited_bytes(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns the bytes of a plan that a rank takes of its machine's memory: all on a CPU, else those on the host.
std::int64_t machine_bytes(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns what is wrong with a plan (storages that may be alive together and overlap, a storage outside its region);
/// empty if nothing.
std::vector<std::string> check_memory_plan(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns the bytes of each category that hold something in a memory space while an operation runs, with operations
/// taken in list order. Their sum is `alive_bytes` of the schedule as JSON.
IndexedVector<OperationId, CategoryBytes> alive_categories(const StepSchedule& schedule, MemorySpace space);

}  // namespace tessera
