#pragma once
// Dropout of attention's probabilities: which random word belongs to which of them. A Philox block's four words mask
// queries q and q + 8 with keys k and k + 8 of a square of 16 x 16: four that one thread has whichever way a
// tensor-core tile lies, so that no word is made in vain.

#include <cstdint>

#include "tessera/base/host_device.hpp"

namespace tessera {

struct ProbabilityMaskPlace {
  std::uint64_t block;
  std::uint32_t word;
};

/// Of one probability of a sample, sequences being `sequence` long.
TESSERA_HOST_DEVICE constexpr ProbabilityMaskPlace probability_mask_place(std::uint64_t sequence, std::uint64_t head,
                                                                          std::uint64_t query, std::uint64_t key) {
  const std::uint64_t half = (sequence + 15) / 16 * 8;
  const auto within = [](std::uint64_t x) { return x / 16 * 8 + x % 8; };
  return {(head * half + within(query)) * half + within(key),
          static_cast<std::uint32_t>(query / 8 % 2 * 2 + key / 8 % 2)};
}

}  // namespace tessera
