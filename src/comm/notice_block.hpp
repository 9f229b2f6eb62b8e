#pragma once
// The notice as ranks of one node see it: plain data in shared memory.

#include <atomic>
#include <cstdint>

#include "tessera/comm/notice.hpp"

namespace tessera {

/// A failure as plain bytes; its message is cut at kText.
struct NoticeMessage {
  static constexpr std::size_t kText = 2000;

  std::int64_t rank;
  std::int32_t code;
  std::uint32_t length;
  char text[kText];

  static NoticeMessage of(const Failure& failure);
  Failure failure() const;
};

struct NoticeBlock {
  enum State : std::uint32_t { quiet = 0, being_written = 1, raised = 2 };  // all zero: quiet

  std::atomic<std::uint32_t> state;
  NoticeMessage message;

  /// Returns true for the first failure; later ones change nothing. A failure can be read then, unless the first
  /// writer was killed or stopped meanwhile.
  bool write(const Failure& failure);
  bool is_raised() const { return state.load(std::memory_order_acquire) == raised; }
  Failure read() const { return message.failure(); }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace tessera
