#pragma once
// What host and GPU pass to each other between segments: tokens, the step's scalars and sums. Everything goes through
// pinned memory by copies on the compute stream, so that neither waits for the other.

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

#include "tessera/backend/device.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/kernels/host_exchange.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

class PinnedExchange {
 public:
  /// `integers`: of the largest input. `pinned`: exchange_bytes(integers) of pinned memory.
  PinnedExchange(Device& device, std::int64_t integers, std::byte* pinned)
      : device_(device), pinned_(*new (pinned) ExchangedScalars()) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].memory =
          pinned + exchange_bytes(integers) - static_cast<std::int64_t>(i + 1) * token_slot_bytes(integers);
      slots_[i].copied = device.make_event();
    }
    for (auto& summed : summed_) summed = device.make_event();
    reached_ = device.make_event();
  }

  /// Fills a segment's input (contiguous, at `tokens`) and, unless `first_sample` is null, the number of its first
  /// sample.
  void load(Stream& stream, const TokenFeed& feed, const ModelParts& model, std::int32_t* tokens,
            std::int64_t* first_sample) {
    Slot& slot = slots_[next_++ % slots_.size()];
    slot.copied->synchronize();  // of the load before last
    auto* const host = reinterpret_cast<std::int32_t*>(slot.memory + kTokenHeader);
    auto* const first = reinterpret_cast<std::int64_t*>(slot.memory);
    *first = feed(host, host + model.tokens());
    fill_borders(model, host);
    device_.copy(stream, tokens, host, model.input_integers() * static_cast<std::int64_t>(sizeof *tokens));
    if (first_sample != nullptr) device_.copy(stream, first_sample, first, sizeof *first);
    stream.record(*slot.copied);
  }

  /// Sends all scalars and waits until they are there.
  void send(Stream& stream, const StepScalars& from, StepScalars* to) {
    pinned_.sent = from;
    device_.copy(stream, to, &pinned_.sent, sizeof from);
    stream.synchronize();
  }
  /// Sends the inputs. The previous send must have arrived (send, receive).
  void send_inputs(Stream& stream, const StepInputs& from, StepScalars* to) {
    static_cast<StepInputs&>(pinned_.sent) = from;
    device_.copy(stream, static_cast<StepInputs*>(to), static_cast<StepInputs*>(&pinned_.sent), sizeof from);
  }

  /// Sends this rank's wish before micro-step `number` of a step, and reads the sum of all back after it was played.
  void send_wish(Stream& stream, std::int64_t number, const StepWish& from, StepWish* to) {
    StepWish& slot = pinned_.wish[number % kWishSlots];
    slot = from;
    device_.copy(stream, to, &slot, sizeof slot);
  }
  void read_wish(Stream& stream, std::int64_t number, const StepWish* summed) {
    StepWish& slot = pinned_.summed_wish[number % kWishSlots];
    device_.copy(stream, &slot, summed, sizeof slot);
    stream.record(*summed_[number % kWishSlots]);
  }
  /// Waits for the sum of micro-step `number`, one of the last kWishSlots that were played, calling `meanwhile` again
  /// and again.
  template <class Meanwhile>
  StepWish summed_wish(std::int64_t number, Meanwhile&& meanwhile) {
    Event& summed = *summed_[number % kWishSlots];
    while (!summed.is_reached()) meanwhile();
    summed.synchronize();
    return pinned_.summed_wish[number % kWishSlots];
  }

  /// Sends the requests that note() has noted last by the time the stream comes here.
  void send_requests(Stream& stream, std::int64_t* to) {
    device_.copy(stream, to, &pinned_.requests, sizeof pinned_.requests);
  }
  /// Notes requests for a send that may be under way: the device takes either the old ones or these.
  void note(std::int64_t requests) { std::atomic_ref(pinned_.requests).store(requests, std::memory_order_relaxed); }

  /// Reads scalars and sums back and waits for them, calling `meanwhile` again and again.
  template <class Meanwhile>
  void receive(Stream& stream, const StepScalars* scalars, const ReducedScalars* reduced, Meanwhile&& meanwhile) {
    device_.copy(stream, &pinned_.scalars, scalars, sizeof *scalars);
    device_.copy(stream, &pinned_.reduced, reduced, sizeof *reduced);
    wait(stream, meanwhile);
  }
  /// Waits until the stream is empty, calling `meanwhile` again and again.
  template <class Meanwhile>
  void wait(Stream& stream, Meanwhile&& meanwhile) {
    stream.record(*reached_);
    while (!reached_->is_reached()) meanwhile();
    stream.synchronize();
  }
  const StepScalars& scalars() const { return pinned_.scalars; }
  const ReducedScalars& reduced_scalars() const { return pinned_.reduced; }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::unique_ptr<Event> copied;
  };

  Device& device_;
  ExchangedScalars& pinned_;
  std::array<Slot, kTokenSlots> slots_;
  std::array<std::unique_ptr<Event>, kWishSlots> summed_;
  std::unique_ptr<Event> reached_;
  std::size_t next_ = 0;
};

}  // namespace tessera
