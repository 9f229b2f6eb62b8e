#pragma once
// Philox4x32-10 (Salmon et al., SC11) on a GPU: the words of philox() (base/counter_rng.hpp).

#include <cstdint>

#include "tessera/base/counter_rng.hpp"

namespace tessera {

struct PhiloxBlock {
  std::uint32_t word[4];
};

__device__ __forceinline__ PhiloxBlock philox_block(std::uint64_t key, RandomUse use, std::uint32_t stream,
                                                    std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32), c2 = stream,
                c3 = static_cast<std::uint32_t>(use);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const std::uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0, c1 = low1, c2 = high0 ^ c3 ^ k1, c3 = low0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace tessera
