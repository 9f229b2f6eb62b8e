#pragma once
// The memory plan: an address for every storage, from the schedule alone, before anything is allocated. Two storages
// may share bytes only if every operation on the one happens before every operation on the other. This holds in every
// segment in which both are present. Neither list order nor predicted time is enough.

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
  /// No plan can be smaller. This is the largest sum alive at one operation in list order. Where `bytes` is more than
  /// 1% above that, it is the weight of storages no two of which may overlap, if that is more.
  std::int64_t lower_bound = 0;
};

/// One memory space: its regions, and what lies in them when.
struct SpacePlan {
  std::array<RegionPlan, kRegions> regions;
  CategoryBytes at_peak{};   ///< at the operation where the sum is largest: these add up
  CategoryBytes own_peak{};  ///< each category at its own peak: these do not
  OperationId peak_operation;

  std::int64_t total() const;         ///< all regions
  std::int64_t lower_bound() const;   ///< over all regions
  std::int64_t live_at_peak() const;  ///< sum of at_peak
  /// Returns what is allocated but not in use at the peak: a region is as large as its own peak, maybe at another time.
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
  bool clique_bound = true;  ///< look for storages no two of which may overlap, where list order leaves more than 1%
  /// Local search while a region's fragmentation is above 1%, measured in pairs of storages looked at (about 0.1 s).
  /// Not in seconds: all ranks must come to the same addresses.
  std::int64_t search_effort = 4'000'000;
};

/// Plans all storages of a schedule.
MemoryPlan plan_memory(const StepSchedule& schedule, const MemoryPlanOptions& options = {});

/// Returns the bytes of a plan that must fit into a device's memory. On a GPU those are the device's. A CPU's
/// memory is both memory spaces, so those are all. With offloading a host beside the device is meant: then those
/// are the device's, and machine_bytes() is what the machine needs.
std::int64_t limited_bytes(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns the bytes of a plan that a rank takes of its machine's memory: on a CPU all, else those on the host.
std::int64_t machine_bytes(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns what is wrong with a plan (storages that may be alive together and overlap, a storage outside its region);
/// empty if nothing.
std::vector<std::string> check_memory_plan(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns the bytes of each category that hold something in a memory space while an operation runs, operations taken
/// in list order. Their sum is `alive_bytes` of the schedule as JSON.
IndexedVector<OperationId, CategoryBytes> alive_categories(const StepSchedule& schedule, MemorySpace space);

}  // namespace tessera
