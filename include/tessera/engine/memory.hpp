#pragma once
// The memory of one rank as planned: one allocation per region, and an address for every storage.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/schedule/memory_plan.hpp"

namespace tessera {

class RankMemory {
 public:
  /// Allocates every region but the shared ones, which belong to the communicators. Throws UsageError or IoError if
  /// there is not enough memory. `device` must outlive this.
  RankMemory(Device& device, const StepSchedule& schedule, const MemoryPlan& plan);
  /// Gives addresses without memory, to bind a schedule that is only looked at.
  RankMemory(const StepSchedule& schedule, const MemoryPlan& plan);
  /// Gives the storages of the shared regions their addresses: those of the device, and those of the host (staging of
  /// collectives; may be empty). The caller keeps ownership of the regions.
  void attach_shared(const StepSchedule& schedule, const MemoryPlan& plan, std::span<std::byte> device,
                     std::span<std::byte> host);

  /// Returns where a storage is on this rank: an address in its memory space. The host reaches a GPU's memory only
  /// through Device::copy.
  std::byte* address(StorageId storage) const { return address_[storage]; }
  /// Returns a region; empty if the plan has none.
  std::span<std::byte> region(RegionKind kind, MemorySpace space = MemorySpace::device) const {
    return regions_[static_cast<std::size_t>(space)][static_cast<std::size_t>(kind)];
  }
  /// Returns the bytes of one storage.
  std::span<std::byte> bytes_of(const StepSchedule& schedule, StorageId storage) const {
    return {address(storage), static_cast<std::size_t>(schedule.storage(storage).bytes)};
  }

 private:
  void set_region(const StepSchedule& schedule, const MemoryPlan& plan, RegionKind kind, MemorySpace space,
                  std::span<std::byte> memory);

  std::vector<std::unique_ptr<DeviceMemory>> owned_;
  std::array<std::array<std::span<std::byte>, kRegions>, kMemorySpaces> regions_;
  IndexedVector<StorageId, std::byte*> address_;
};

}  // namespace tessera
