#pragma once
// In AddressSanitizer builds, an operation may touch only what its schedule entry names. While a segment is played
// serially, all of the private region is poisoned, and each operation's own storages are opened for its duration. In
// other builds these classes do nothing.

#include <cstddef>
#include <span>

#include "tessera/engine/memory.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tessera {

#if defined(__SANITIZE_ADDRESS__)

/// Poisons the private region until the segment ends.
class SegmentGuard {
 public:
  SegmentGuard(std::span<std::byte> region, bool active) : region_(active ? region : std::span<std::byte>{}) {
    if (region_.empty()) return;
    __asan_poison_memory_region(region_.data(), region_.size());
    current_ = this;
  }
  ~SegmentGuard() {
    if (region_.empty()) return;
    __asan_unpoison_memory_region(region_.data(), region_.size());
    current_ = nullptr;
  }
  SegmentGuard(const SegmentGuard&) = delete;
  SegmentGuard& operator=(const SegmentGuard&) = delete;
  static const SegmentGuard* current() { return current_; }

 private:
  std::span<std::byte> region_;
  static inline thread_local const SegmentGuard* current_ = nullptr;
};

/// Opens an operation's private storages.
class TouchGuard {
 public:
  TouchGuard(const SegmentGuard* guard, const StepSchedule& schedule, const RankMemory& memory, const Operation& op)
      : guard_(SegmentGuard::current() != nullptr ? guard : nullptr), schedule_(schedule), memory_(memory), op_(op) {
    each([](std::byte* data, std::size_t bytes) { __asan_unpoison_memory_region(data, bytes); });
  }
  ~TouchGuard() {
    each([](std::byte* data, std::size_t bytes) { __asan_poison_memory_region(data, bytes); });
  }
  TouchGuard(const TouchGuard&) = delete;
  TouchGuard& operator=(const TouchGuard&) = delete;

 private:
  template <class F>
  void each(F&& f) {
    if (guard_ == nullptr) return;
    for (const ValueId v : touched_values(op_)) {
      const Storage& storage = schedule_.storage_of(v);
      std::byte* data = memory_.address(schedule_.value(v).storage);
      const bool guarded = storage.space == MemorySpace::device && storage.region == RegionKind::private_;
      if (guarded) f(data, static_cast<std::size_t>(storage.bytes));
    }
  }
  const SegmentGuard* guard_;
  const StepSchedule& schedule_;
  const RankMemory& memory_;
  const Operation& op_;
};

#else

class SegmentGuard {
 public:
  SegmentGuard(std::span<std::byte>, bool) {}
  static const SegmentGuard* current() { return nullptr; }
};

class TouchGuard {
 public:
  TouchGuard(const SegmentGuard*, const StepSchedule&, const RankMemory&, const Operation&) {}
};

#endif

}  // namespace tessera
