#pragma once
// The memory plan: an address for every storage, from the schedule alone, before anything is allocated. Two storages
// may share bytes only if every operation that touches the one happens before every operation that touches the other
// (happens-before, not list order or predicted time), in every segment in which both are present.

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
  /// No plan can be smaller: the largest sum alive at one operation in list order or, where `bytes` is more than 1%
  /// above that and the region has no more than some thousand storages, the heaviest set of them no two of which are
  /// ordered.
  std::int64_t lower_bound = 0;
};

/// One place: its regions, and what lies in them when.
struct PlacePlan {
  std::array<RegionPlan, kRegions> regions;
  CategoryBytes at_peak{};   ///< at the operation where the sum is largest: these add up
  CategoryBytes own_peak{};  ///< each category at its own peak: these do not
  OperationId peak_operation = -1;

  std::int64_t total() const;         ///< all regions
  std::int64_t lower_bound() const;   ///< over all regions
  std::int64_t live_at_peak() const;  ///< sum of at_peak
  /// Allocated, but not in use at the peak: a region is as large as its own peak, which may be at another time.
  std::int64_t idle_at_peak() const { return total() - live_at_peak(); }
};

struct MemoryPlan {
  std::vector<std::int64_t> offset;  ///< per storage: bytes from the start of its region
  std::array<PlacePlan, kPlaces> places;

  const PlacePlan& at(Place place) const { return places[static_cast<std::size_t>(place)]; }
  const RegionPlan& region(Place place, RegionKind kind) const {
    return at(place).regions[static_cast<std::size_t>(kind)];
  }
  std::int64_t total() const;        ///< all regions of all places
  std::int64_t lower_bound() const;  ///< over all of them
  double fragmentation() const;      ///< total / lower bound - 1
};

struct MemoryPlanOptions {
  bool exact_bound = true;  ///< look for the heaviest set (a maximum flow) where the quick bound leaves more than 1%
  /// Local search while a region's fragmentation is above 1%, measured in pairs of storages looked at (about 0.1 s).
  /// Not in seconds: all ranks must come to the same addresses.
  std::int64_t search_effort = 4'000'000;
};

/// Plans all storages of a schedule.
MemoryPlan plan_memory(const StepSchedule& schedule, const MemoryPlanOptions& options = {});

/// Bytes of a plan that have to fit into the memory of a device: on a GPU the device's, on a CPU, whose memory both
/// places are, all.
std::int64_t limited_bytes(const StepSchedule& schedule, const MemoryPlan& plan);

/// What is wrong with a plan (storages that may be alive together and overlap, a storage outside its region); empty if
/// nothing.
std::vector<std::string> check_memory_plan(const StepSchedule& schedule, const MemoryPlan& plan);

}  // namespace tessera
