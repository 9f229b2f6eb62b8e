#pragma once
// The last operations of a run, for the watchdog and for the report after a crash. A ring of fixed size, written by all
// queues, read at any time by another thread. Nothing is allocated after construction.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera {

/// One operation of the schedule as it was run.
struct RingEntry {
  std::uint64_t sequence = 0;  ///< counts operations since the start, from 0
  std::int32_t operation = 0;  ///< index in the schedule
  std::int32_t kind = 0;       ///< the schedule's operation kind
  std::int32_t unit = 0;       ///< unit or part; -1 for none
  std::int64_t bytes = 0;      ///< moved or touched, as the schedule says
  std::int64_t start_ns = 0;   ///< of the monotonic clock
  std::int64_t end_ns = 0;     ///< 0 while it runs
};

/// Thread-safe without locks: an entry is guarded by its own version counter, and a reader drops an entry that changes
/// meanwhile.
class OperationRing {
 public:
  /// `capacity` >= 1 entries.
  explicit OperationRing(std::size_t capacity = 1024);

  /// Enters an operation that starts now; returns its sequence number.
  std::uint64_t begin(std::int32_t operation_index, std::int32_t kind_number, std::int32_t unit_number,
                      std::int64_t byte_count);
  /// Notes that it has ended; nothing happens if its entry has been overwritten since.
  void end(std::uint64_t number);

  /// Returns the entries present, oldest first. While others write, the newest or oldest may be missing.
  std::vector<RingEntry> snapshot() const;
  /// Returns the number of operations entered since construction.
  std::uint64_t entered() const { return next_.load(std::memory_order_acquire); }
  std::size_t capacity() const { return capacity_; }

 private:
  enum Field : std::size_t { sequence, operation, kind, unit, bytes, start_ns, end_ns, fields };
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> version{0};  ///< odd while it is written, 0 while it is empty
    std::array<std::atomic<std::int64_t>, fields> values{};
  };
  static std::uint64_t lock(Slot& slot);

  std::size_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace tessera
