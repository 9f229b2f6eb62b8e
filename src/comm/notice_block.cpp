#include "comm/notice_block.hpp"

#include <algorithm>
#include <thread>

#include "comm/wait.hpp"

namespace tessera {

bool NoticeBlock::write(const Failure& failure) {
  std::uint32_t expected = quiet;
  if (!state.compare_exchange_strong(expected, being_written)) {
    // The other one needs a microsecond, unless it is killed meanwhile.
    PeerDeadline deadline(1);
    while (!is_raised() && !deadline.passed()) std::this_thread::yield();
    return false;
  }
  message = NoticeMessage::of(failure);
  state.store(raised, std::memory_order_release);
  return true;
}

NoticeMessage NoticeMessage::of(const Failure& failure) {
  NoticeMessage made{failure.rank, static_cast<std::int32_t>(failure.code), 0, {}};
  made.length = static_cast<std::uint32_t>(std::min(failure.message.size(), kText));
  std::copy_n(failure.message.data(), made.length, made.text);
  return made;
}

Failure NoticeMessage::failure() const {
  return {rank, static_cast<ExitCode>(code), std::string(text, std::min<std::size_t>(length, kText))};
}

}  // namespace tessera
