#pragma once
// The channel of all staged collectives of a rank. It has one CUDA stream, one pinned buffer that peers of the node can
// read, and the host work between the copies.
//
// Host functions of CUDA may run one after the other in any order between streams, and here they wait for peers. Two of
// them on different streams could wait for each other across ranks. On one stream they run in the order of issue, which
// is the same on all ranks (schedule rule 2).

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "comm/collective_call.hpp"
#include "tessera/backend/device.hpp"
#include "tessera/comm/rank_context.hpp"

namespace tessera {

class StagingChannel {
 public:
  /// Reserves full buffers of `largest_full` bytes and shards of `largest_result`, in `region`. If that is null,
  /// allocates its own memory, and is collective over the node.
  StagingChannel(RankContext& context, Device& device, std::int64_t largest_full, std::int64_t largest_result,
                 const SharedRegion* region);
  ~StagingChannel();
  StagingChannel(const StagingChannel&) = delete;
  StagingChannel& operator=(const StagingChannel&) = delete;

  const SharedRegion& region() const { return *region_; }
  std::int64_t own_bytes() const { return own_ != nullptr ? own_->size() : 0; }
  std::byte* whole() const { return region_->data(); }
  std::byte* result() const { return region_->data() + result_offset_; }
  /// InternalError unless `whole` and `result` bytes fit.
  void check_room(std::int64_t whole, std::int64_t result) const;

  /// Orders work issued from here to end() after the work that `caller` has so far. InternalError while `caller` is
  /// captured.
  void begin(Stream& caller);
  void copy(void* to, const void* from, std::int64_t bytes);
  /// Makes a call on the host, with buffers in the pinned one.
  void run(Communicator& inner, const CollectiveCall& call);
  /// Orders work that `caller` is given from here on after the work since begin().
  void end(Stream& caller);

  /// Rethrows the failure of host work, if any: nothing is staged after it.
  void check();

 private:
  /// The work of a host function: nothing is allocated per call.
  struct Slot {
    StagingChannel* channel = nullptr;
    Communicator* inner = nullptr;
    CollectiveCall call;
    std::atomic<bool> busy{false};
  };
  static void run_slot(void* slot) noexcept;
  void run(const Slot& slot) noexcept;
  void fail(ExitCode code, const char* what) noexcept;

  RankContext& context_;
  Device& device_;
  std::int64_t result_offset_;
  std::unique_ptr<SharedRegion> own_;
  const SharedRegion* region_;
  std::unique_ptr<Stream> stream_, host_;
  std::unique_ptr<Event> ready_, done_;
  std::array<Slot, 64> slots_;  ///< work that was issued and has not run yet
  std::size_t next_ = 0;
  std::atomic<bool> failed_{false};
  std::mutex failure_lock_;
  std::exception_ptr failure_;
};

}  // namespace tessera
