#pragma once
// Data that host and GPU exchange every step, in pinned host memory.

#include <array>
#include <cstdint>

#include "tessera/base/math.hpp"
#include "tessera/kernels/reduced_scalars.hpp"
#include "tessera/kernels/step_scalars.hpp"

namespace tessera {

/// Micro-steps whose wishes may be on their way: the one that is submitted, and the one before it.
inline constexpr int kWishSlots = 2;

struct ExchangedScalars {
  StepScalars sent, scalars;
  ReducedScalars reduced;
  std::array<StepWish, kWishSlots> wish, summed_wish;
  std::int64_t requests = 0;  ///< as of now: copied when a step's last sum begins
};

/// A slot holds the integers of a segment's input (ModelParts::input_integers) on their way to the device, behind the
/// number of their first sample. While one is copied the other is filled.
inline constexpr int kTokenSlots = 2;
inline constexpr std::int64_t kTokenHeader = 64;
constexpr std::int64_t token_slot_bytes(std::int64_t integers) {
  return kTokenHeader + round_up(integers * static_cast<std::int64_t>(sizeof(std::int32_t)), kTokenHeader);
}

/// Returns the size of the exchange for inputs of up to this many integers: scalars, then the slots.
constexpr std::int64_t exchange_bytes(std::int64_t integers) {
  return round_up(static_cast<std::int64_t>(sizeof(ExchangedScalars)), kTokenHeader) +
         kTokenSlots * token_slot_bytes(integers);
}

}  // namespace tessera
