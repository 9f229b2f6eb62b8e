#include "tessera/engine/measured_bytes.hpp"

#include <algorithm>

#include "tessera/backend/region.hpp"
#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

struct RegionOfSpace {
  MemorySpace space;
  RegionKind kind;
};
constexpr RegionOfSpace kAllRegions[] = {
    {MemorySpace::device, RegionKind::at_rest},  {MemorySpace::device, RegionKind::shared},
    {MemorySpace::device, RegionKind::private_}, {MemorySpace::host, RegionKind::at_rest},
    {MemorySpace::host, RegionKind::shared},     {MemorySpace::host, RegionKind::private_}};

/// Returns where a category's storages are in a region: offsets, each once, in order.
std::vector<Extent> extents_of(const StepSchedule& schedule, const Resources& resources, Category category,
                               RegionOfSpace region) {
  const std::byte* const start = resources.memory->region(region.kind, region.space).data();
  std::vector<Extent> all;
  for (const StorageId id : schedule.storages.ids()) {
    const Storage& storage = schedule.storage(id);
    const bool here = storage.space == region.space && storage.region == region.kind;
    if (!here || storage.category != category || storage.bytes == 0) continue;
    const std::int64_t offset = resources.address(id) - start;
    all.push_back({offset, offset + storage.bytes});
  }
  std::sort(all.begin(), all.end(), [](Extent a, Extent b) { return a.begin < b.begin; });
  std::vector<Extent> merged;
  for (const Extent next : all) {
    if (merged.empty() || next.begin > merged.back().end) {
      merged.push_back(next);
    } else {
      merged.back().end = std::max(merged.back().end, next.end);
    }
  }
  return merged;
}

/// Returns the bytes in use within an extent; -1 if that is not known.
std::int64_t bytes_there(const Resources& resources, RegionOfSpace region, Extent extent) {
  const auto memory =
      resources.memory->region(region.kind, region.space)
          .subspan(static_cast<std::size_t>(extent.begin), static_cast<std::size_t>(extent.end - extent.begin));
  return region.space == MemorySpace::host ? measured_bytes(memory)
                                           : resources.compute->measured_bytes(memory, extent.begin);
}

}  // namespace

CategoryBytes measured_bytes(const StepSchedule& schedule, const Resources& resources) {
  CategoryBytes bytes{};
  for (std::size_t c = 0; c < kCategories; ++c) {
    for (const RegionOfSpace region : kAllRegions) {
      for (const Extent extent : extents_of(schedule, resources, static_cast<Category>(c), region)) {
        const std::int64_t here = bytes_there(resources, region, extent);
        bytes[c] = here < 0 || bytes[c] < 0 ? -1 : bytes[c] + here;
      }
    }
  }
  return bytes;
}

}  // namespace tessera
