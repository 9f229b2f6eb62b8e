#pragma once
// Messages between the threads of a group: the later of a matching send and receive copies the data.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/comm/transport.hpp"

namespace tessera {

/// The shared state of one group's ranks.
class ThreadMailbox {
 public:
  explicit ThreadMailbox(std::int64_t ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  MessageSlot post(int rank, int peer, int tag, bool sends, void* data, std::int64_t bytes);
  bool finished(int rank, MessageSlot slot);
  void cancel(int rank);
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  struct Message {
    enum class State : std::uint8_t { free, waiting, done } state = State::free;
    bool sends = false;
    int peer = 0, tag = 0;
    void* data = nullptr;
    std::int64_t bytes = 0, number = 0;  ///< number: the order of posting, in which equal messages match
  };
  using Slots = std::array<Message, Transport::kSlots>;

  Message* find_match(int rank, int peer, int tag, bool sends);

  std::mutex lock_;
  std::int64_t posted_ = 0;
  std::vector<Slots> ranks_;
};

/// One rank's end of a mail room.
class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<ThreadMailbox> room, int rank) : room_(std::move(room)), rank_(rank) {}
  ~LocalTransport() override { room_->cancel(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return room_->size(); }
  MessageSlot start_send(int peer, int tag, const void* data, std::int64_t bytes) override {
    return room_->post(rank_, peer, tag, true, const_cast<void*>(data), bytes);  // sends only read it
  }
  MessageSlot start_receive(int peer, int tag, void* data, std::int64_t bytes) override {
    return room_->post(rank_, peer, tag, false, data, bytes);
  }
  bool finished(MessageSlot slot) override { return room_->finished(rank_, slot); }
  void cancel() override { room_->cancel(rank_); }

 private:
  std::shared_ptr<ThreadMailbox> room_;
  int rank_;
};

}  // namespace tessera
