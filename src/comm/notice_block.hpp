#pragma once
// The notice as ranks of one node see it: plain data in shared memory.

#include <atomic>
#include <cstdint>

#include "tessera/comm/notice.hpp"

namespace tessera {

struct NoticeBlock {
  static constexpr std::size_t kText = 2000;
  enum State : std::uint32_t { quiet = 0, being_written = 1, raised = 2 };  // all zero: quiet

  std::atomic<std::uint32_t> state;
  std::int32_t code;
  std::int64_t rank;
  std::uint32_t length;
  char text[kText];

  /// Returns true for the first failure; later ones change nothing. Messages are cut at kText bytes. A failure can be
  /// read then, unless the first writer was killed or stopped meanwhile.
  bool write(const Failure& failure);
  bool is_raised() const { return state.load(std::memory_order_acquire) == raised; }
  Failure read() const;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// The notice of ranks that all share one block.
class BlockNotice final : public FailureNotice {
 public:
  explicit BlockNotice(NoticeBlock& block) : block_(block) {}
  bool raise(const Failure& failure) override { return block_.write(failure); }
  bool raised() override { return block_.is_raised(); }
  Failure failure() override { return block_.read(); }

 private:
  NoticeBlock& block_;
};

}  // namespace tessera
