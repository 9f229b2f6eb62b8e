#include "engine/gpu/pinned_exchange.hpp"

#include <new>

namespace tessera {

PinnedExchange::PinnedExchange(Device& device, std::int64_t tokens, std::byte* pinned)
    : device_(device), tokens_(tokens), pinned_(*new (pinned) ExchangedScalars()) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].memory = pinned + exchange_bytes(tokens) - static_cast<std::int64_t>(i + 1) * token_slot_bytes(tokens);
    slots_[i].copied = device.make_event();
  }
}

void PinnedExchange::load(Stream& stream, const TokenFeed& feed, std::int32_t* tokens, std::int64_t* first_sample) {
  Slot& slot = slots_[next_++ % slots_.size()];
  slot.copied->synchronize();  // of the load before last
  auto* const host = reinterpret_cast<std::int32_t*>(slot.memory + kTokenHeader);
  auto* const first = reinterpret_cast<std::int64_t*>(slot.memory);
  *first = feed(host, host + tokens_);
  device_.copy(stream, tokens, host, 2 * tokens_ * static_cast<std::int64_t>(sizeof *tokens));
  device_.copy(stream, first_sample, first, sizeof *first);
  stream.record(*slot.copied);
}

void PinnedExchange::send(Stream& stream, const StepScalars& from, StepScalars* to) {
  pinned_.sent = from;
  device_.copy(stream, to, &pinned_.sent, sizeof from);
  stream.synchronize();
}

void PinnedExchange::send_inputs(Stream& stream, const StepInputs& from, StepScalars* to) {
  static_cast<StepInputs&>(pinned_.sent) = from;
  device_.copy(stream, static_cast<StepInputs*>(to), static_cast<StepInputs*>(&pinned_.sent), sizeof from);
}

void PinnedExchange::receive(Stream& stream, const StepScalars* scalars, const ScalarPayload* payload) {
  device_.copy(stream, &pinned_.scalars, scalars, sizeof *scalars);
  device_.copy(stream, &pinned_.payload, payload, sizeof *payload);
  stream.synchronize();
}

}  // namespace tessera
