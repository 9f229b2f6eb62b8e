#pragma once
// What host and GPU hand each other between segments: tokens, the step's scalars and sums. All of it goes through
// pinned memory by copies on the compute stream, so that neither waits for the other.

#include <array>
#include <cstddef>
#include <memory>

#include "tessera/backend/device.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/kernels/host_exchange.hpp"

namespace tessera {

class PinnedExchange {
 public:
  /// `tokens`: of a micro-batch. `pinned`: exchange_bytes(tokens) of pinned memory.
  PinnedExchange(Device& device, std::int64_t tokens, std::byte* pinned);

  /// Fills a micro-batch's tokens and targets (contiguous, at `tokens`) and the number of its first sample.
  void load(Stream& stream, const TokenFeed& feed, std::int32_t* tokens, std::int64_t* first_sample);

  /// Sends all scalars and waits until they are there.
  void send(Stream& stream, const StepScalars& from, StepScalars* to);
  /// Sends the inputs. What was sent last must be there (send, receive).
  void send_inputs(Stream& stream, const StepInputs& from, StepScalars* to);

  /// Reads scalars and sums back and waits for them.
  void receive(Stream& stream, const StepScalars* scalars, const ScalarPayload* payload);
  const StepScalars& scalars() const { return pinned_.scalars; }
  const ScalarPayload& payload() const { return pinned_.payload; }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<Event> copied;
  };

  Device& device_;
  std::int64_t tokens_;
  ExchangedScalars& pinned_;
  std::array<Slot, kTokenSlots> slots_;
  std::size_t next_ = 0;
};

}  // namespace tessera
