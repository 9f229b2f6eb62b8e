#pragma once
// What host and device hand each other between segments: tokens, the step's scalars and sums. On a GPU everything goes
// through pinned memory by copies on the compute stream, so that neither waits for the other.

#include <array>
#include <cstring>
#include <memory>

#include "tessera/backend/device.hpp"
#include "tessera/engine/player.hpp"

namespace tessera {

class Player::Exchange {
 public:
  /// `tokens`: of a micro-batch.
  Exchange(Device& device, std::int64_t tokens)
      : device_(device),
        token_bytes_(2 * tokens * static_cast<std::int64_t>(sizeof(std::int32_t))),
        scalars_(device.allocate(MemoryKind::pinned, sizeof(Scalars))) {
    if (device.kind() == DeviceKind::cpu) return;
    for (Slot& slot : slots_) {
      slot.memory = device.allocate(MemoryKind::pinned, token_bytes_ + kHeader);
      slot.copied = device.make_event();
    }
  }

  /// Fills a micro-batch's tokens and targets (contiguous, at `tokens`) and the number of its first sample.
  void load(Stream& stream, const TokenFeed& feed, std::int32_t* tokens, std::int64_t* first_sample) {
    const std::int64_t half = token_bytes_ / 2 / static_cast<std::int64_t>(sizeof(std::int32_t));
    if (device_.kind() == DeviceKind::cpu) {
      *first_sample = feed(tokens, tokens + half);
      return;
    }
    Slot& slot = slots_[next_++ % slots_.size()];
    slot.copied->synchronize();  // of the load before last
    auto* const host = reinterpret_cast<std::int32_t*>(slot.memory->data() + kHeader);
    auto* const first = reinterpret_cast<std::int64_t*>(slot.memory->data());
    *first = feed(host, host + half);
    device_.copy(stream, tokens, host, token_bytes_);
    device_.copy(stream, first_sample, first, sizeof *first);
    stream.record(*slot.copied);
  }

  /// Sends all scalars and waits until they are there.
  void send(Stream& stream, const StepScalars& from, StepScalars* to) {
    pinned().sent = from;
    device_.copy(stream, to, &pinned().sent, sizeof from);
    stream.synchronize();
  }
  /// Sends the inputs. What was sent last must be there (send, receive).
  void send_inputs(Stream& stream, const StepInputs& from, StepScalars* to) {
    static_cast<StepInputs&>(pinned().sent) = from;
    device_.copy(stream, static_cast<StepInputs*>(to), static_cast<StepInputs*>(&pinned().sent), sizeof from);
  }

  /// Reads scalars and sums back and waits for them.
  void receive(Stream& stream, const StepScalars* scalars, const ScalarPayload* payload) {
    device_.copy(stream, &pinned().scalars, scalars, sizeof *scalars);
    device_.copy(stream, &pinned().payload, payload, sizeof *payload);
    stream.synchronize();
  }
  const StepScalars& scalars() const { return pinned().scalars; }
  const ScalarPayload& payload() const { return pinned().payload; }

 private:
  static constexpr std::int64_t kHeader = 64;  ///< of a slot: the first sample's number, then tokens
  struct Scalars {
    StepScalars sent, scalars;
    ScalarPayload payload;
  };
  struct Slot {
    std::unique_ptr<DeviceMemory> memory;
    std::unique_ptr<Event> copied;
  };
  Scalars& pinned() const { return *reinterpret_cast<Scalars*>(scalars_->data()); }

  Device& device_;
  std::int64_t token_bytes_;
  std::unique_ptr<DeviceMemory> scalars_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

}  // namespace tessera
