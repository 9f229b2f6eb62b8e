#include "tessera/engine/memory.hpp"

namespace tessera {

RankMemory::RankMemory(Device& device, const StepSchedule& schedule, const MemoryPlan& plan)
    : address_(schedule.storages.size()) {
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
    const MemoryKind memory = space == MemorySpace::device ? MemoryKind::device : MemoryKind::pinned;
    for (const RegionKind kind : {RegionKind::at_rest, RegionKind::private_}) {
      const DeviceMemory& region = *owned_.emplace_back(device.allocate(memory, plan.region(space, kind).bytes));
      set_region(schedule, plan, kind, space, {region.data(), static_cast<std::size_t>(region.size())});
    }
  }
}

RankMemory::RankMemory(const StepSchedule& schedule, const MemoryPlan& plan) : address_(schedule.storages.size()) {
  std::uintptr_t base = 0;
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
    for (const RegionKind kind : {RegionKind::at_rest, RegionKind::shared, RegionKind::private_}) {
      base += std::uintptr_t{1} << 44;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): nobody reads there
      set_region(schedule, plan, kind, space,
                 {reinterpret_cast<std::byte*>(base), static_cast<std::size_t>(plan.region(space, kind).bytes)});
    }
  }
}

void RankMemory::attach_shared(const StepSchedule& schedule, const MemoryPlan& plan, std::span<std::byte> device,
                               std::span<std::byte> host) {
  set_region(schedule, plan, RegionKind::shared, MemorySpace::device, device);
  set_region(schedule, plan, RegionKind::shared, MemorySpace::host, host);
}

void RankMemory::set_region(const StepSchedule& schedule, const MemoryPlan& plan, RegionKind kind, MemorySpace space,
                            std::span<std::byte> memory) {
  regions_[static_cast<std::size_t>(space)][static_cast<std::size_t>(kind)] = memory;
  for (const StorageId id : schedule.storages.ids()) {
    const Storage& storage = schedule.storages[id];
    if (storage.space == space && storage.region == kind) address_[id] = memory.data() + plan.offset[id];
  }
}

}  // namespace tessera
