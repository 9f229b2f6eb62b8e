#include "tessera/engine/memory.hpp"

namespace tessera {

RankMemory::RankMemory(Device& device, const StepSchedule& schedule, const MemoryPlan& plan)
    : address_(schedule.storages.size()) {
  for (const Place place : {Place::device, Place::host}) {
    const MemoryKind memory = place == Place::device ? MemoryKind::device : MemoryKind::pinned;
    for (const RegionKind kind : {RegionKind::at_rest, RegionKind::private_}) {
      const DeviceMemory& region = *owned_.emplace_back(device.allocate(memory, plan.region(place, kind).bytes));
      set_region(schedule, plan, kind, place, {region.data(), static_cast<std::size_t>(region.size())});
    }
  }
}

void RankMemory::attach_shared(const StepSchedule& schedule, const MemoryPlan& plan, std::span<std::byte> device,
                               std::span<std::byte> host) {
  set_region(schedule, plan, RegionKind::shared, Place::device, device);
  set_region(schedule, plan, RegionKind::shared, Place::host, host);
}

void RankMemory::set_region(const StepSchedule& schedule, const MemoryPlan& plan, RegionKind kind, Place place,
                            std::span<std::byte> memory) {
  regions_[static_cast<std::size_t>(place)][static_cast<std::size_t>(kind)] = memory;
  for (std::size_t id = 0; id < schedule.storages.size(); ++id) {
    const Storage& storage = schedule.storages[id];
    if (storage.place == place && storage.region == kind) address_[id] = memory.data() + plan.offset[id];
  }
}

}  // namespace tessera
