#include "tessera/telemetry/ring.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

OperationRing::OperationRing(std::size_t capacity) : capacity_(capacity), slots_(new Slot[capacity]) {
  TESSERA_ASSERT(capacity > 0, "a ring has at least one entry");
}

/// Makes the version odd, so that readers and other writers stay away; returns the even one before.
std::uint64_t OperationRing::lock(Slot& slot) {
  for (;;) {
    std::uint64_t version = slot.version.load(std::memory_order_relaxed);
    if (version % 2 == 0 && slot.version.compare_exchange_weak(version, version + 1, std::memory_order_acq_rel)) {
      return version;
    }
    std::this_thread::yield();  // another queue holds it for a few stores
  }
}

std::uint64_t OperationRing::begin(std::int32_t operation_index, std::int32_t kind_number, std::int32_t unit_number,
                                   std::int64_t byte_count) {
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_acq_rel);
  Slot& slot = slots_[number % capacity_];
  const std::uint64_t version = lock(slot);
  const std::array<std::int64_t, fields> values = {
      static_cast<std::int64_t>(number), operation_index, kind_number, unit_number, byte_count, now_ns(), 0};
  const bool newer_is_there = version != 0 && slot.values[sequence].load(std::memory_order_relaxed) > values[sequence];
  if (!newer_is_there) {
    for (std::size_t i = 0; i < fields; ++i) slot.values[i].store(values[i], std::memory_order_release);
  }
  slot.version.store(version + 2, std::memory_order_release);
  return number;
}

void OperationRing::end(std::uint64_t number) {
  Slot& slot = slots_[number % capacity_];
  const std::uint64_t version = lock(slot);
  if (slot.values[sequence].load(std::memory_order_relaxed) == static_cast<std::int64_t>(number)) {
    slot.values[end_ns].store(now_ns(), std::memory_order_release);
  }
  slot.version.store(version + 2, std::memory_order_release);
}

std::vector<RingEntry> OperationRing::snapshot() const {
  std::vector<RingEntry> entries;
  entries.reserve(capacity_);
  for (std::size_t i = 0; i < capacity_; ++i) {
    const Slot& slot = slots_[i];
    const std::uint64_t before = slot.version.load(std::memory_order_acquire);
    if (before == 0 || before % 2 != 0) continue;
    std::array<std::int64_t, fields> values;
    // Values are stored with release and loaded with acquire: a reader of a new value also reads the odd version before
    // it.
    for (std::size_t k = 0; k < fields; ++k) values[k] = slot.values[k].load(std::memory_order_acquire);
    if (slot.version.load(std::memory_order_relaxed) != before) continue;
    entries.push_back({static_cast<std::uint64_t>(values[sequence]), static_cast<std::int32_t>(values[operation]),
                       static_cast<std::int32_t>(values[kind]), static_cast<std::int32_t>(values[unit]), values[bytes],
                       values[start_ns], values[end_ns]});
  }
  std::sort(entries.begin(), entries.end(),
            [](const RingEntry& a, const RingEntry& b) { return a.sequence < b.sequence; });
  return entries;
}

}  // namespace tessera
