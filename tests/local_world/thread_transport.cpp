#include "local_world/thread_transport.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera {

ThreadMailbox::Message* ThreadMailbox::find_match(int rank, int peer, int tag, bool sends) {
  Message* oldest = nullptr;
  for (Message& message : ranks_[static_cast<std::size_t>(peer)]) {
    const bool matches = message.state == Message::State::waiting && message.sends != sends && message.peer == rank &&
                         message.tag == tag;
    if (matches && (oldest == nullptr || message.number < oldest->number)) oldest = &message;
  }
  return oldest;
}

MessageSlot ThreadMailbox::post(int rank, int peer, int tag, bool sends, void* data, std::int64_t bytes) {
  const std::lock_guard lock(lock_);
  Slots& mine = ranks_[static_cast<std::size_t>(rank)];
  const auto slot =
      std::find_if(mine.begin(), mine.end(), [](const Message& m) { return m.state == Message::State::free; });
  TESSERA_ASSERT(slot != mine.end(), "more than {} messages under way", Transport::kSlots);
  *slot = {Message::State::waiting, sends, peer, tag, data, bytes, posted_++};
  if (Message* const match = find_match(rank, peer, tag, sends)) {
    const Message& sent = sends ? *slot : *match;
    const Message& received = sends ? *match : *slot;
    if (sent.bytes > received.bytes) {
      throw CommunicationError("a message of {} bytes for a receive of {}: ranks are out of step", sent.bytes,
                               received.bytes);
    }
    if (sent.bytes > 0) std::memcpy(received.data, sent.data, static_cast<std::size_t>(sent.bytes));
    slot->state = match->state = Message::State::done;
  }
  return {static_cast<int>(slot - mine.begin())};
}

bool ThreadMailbox::finished(int rank, MessageSlot slot) {
  const std::lock_guard lock(lock_);
  Message& message = ranks_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(slot.index)];
  TESSERA_ASSERT(message.state != Message::State::free, "a message that is not under way");
  if (message.state == Message::State::waiting) return false;
  message.state = Message::State::free;
  return true;
}

void ThreadMailbox::cancel(int rank) {
  const std::lock_guard lock(lock_);
  for (Message& message : ranks_[static_cast<std::size_t>(rank)]) message.state = Message::State::free;
}

}  // namespace tessera
