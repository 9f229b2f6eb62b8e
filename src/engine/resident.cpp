#include "tessera/engine/resident.hpp"

#include <algorithm>

#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

using Bytes = std::span<const std::byte>;

/// The addresses of a category's storages, each once, in order.
std::vector<Bytes> addresses_of(const StepSchedule& schedule, const Resources& resources, Category category) {
  std::vector<Bytes> all;
  for (StorageId id = 0; id < static_cast<StorageId>(schedule.storages.size()); ++id) {
    const Storage& storage = schedule.storage(id);
    if (storage.category != category || storage.bytes == 0) continue;
    all.emplace_back(resources.address(id), static_cast<std::size_t>(storage.bytes));
  }
  std::sort(all.begin(), all.end(), [](Bytes a, Bytes b) { return a.data() < b.data(); });
  std::vector<Bytes> merged;
  for (const Bytes next : all) {
    const std::byte* const end = next.data() + next.size();
    if (merged.empty() || next.data() > merged.back().data() + merged.back().size()) {
      merged.push_back(next);
    } else if (end > merged.back().data() + merged.back().size()) {
      merged.back() = {merged.back().data(), end};
    }
  }
  return merged;
}

}  // namespace

CategoryBytes resident_bytes(const StepSchedule& schedule, const Resources& resources) {
  CategoryBytes bytes{};
  if (!resources.host_reaches_memory()) {
    bytes.fill(-1);
    return bytes;
  }
  for (std::size_t c = 0; c < kCategories; ++c) {
    for (const Bytes& memory : addresses_of(schedule, resources, static_cast<Category>(c))) {
      const std::int64_t here = resident_bytes(memory);
      if (here < 0) {
        bytes[c] = -1;
        break;
      }
      bytes[c] += here;
    }
  }
  return bytes;
}

}  // namespace tessera
