#pragma once
// Dropout of attention's probabilities: assigns random words to them. In a square of 16 x 16, a Philox block's four
// words mask queries q, q + 8 and keys k, k + 8. One thread has these four whichever way a tensor-core tile lies, so
// that no word is computed in vain.

#include <cstdint>

#include "tessera/base/host_device.hpp"

namespace tessera {

struct ProbabilityMaskPlace {
  std::uint64_t block;
  std::uint32_t word;
};

/// Returns the word of one probability of a sample, for sequences of length `sequence`.
TESSERA_HOST_DEVICE constexpr ProbabilityMaskPlace probability_mask_place(std::uint64_t sequence, std::uint64_t head,
                                                                          std::uint64_t query, std::uint64_t key) {
  const std::uint64_t half = (sequence + 15) / 16 * 8;
  const auto within = [](std::uint64_t x) { return x / 16 * 8 + x % 8; };
  return {(head * half + within(query)) * half + within(key),
          static_cast<std::uint32_t>(query / 8 % 2 * 2 + key / 8 % 2)};
}

}  // namespace tessera
