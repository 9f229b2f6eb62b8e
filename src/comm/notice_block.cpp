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
  code = static_cast<std::int32_t>(failure.code);
  rank = failure.rank;
  length = static_cast<std::uint32_t>(std::min(failure.message.size(), kText));
  std::copy_n(failure.message.data(), length, text);
  state.store(raised, std::memory_order_release);
  return true;
}

Failure NoticeBlock::read() const {
  return {rank, static_cast<ExitCode>(code), std::string(text, std::min<std::size_t>(length, kText))};
}

}  // namespace tessera
