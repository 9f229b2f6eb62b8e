#pragma once
// Optimizer states in fp32, or in bf16, rounded at random with the CPU's bits (kernels/state_rounding.hpp).

#include <type_traits>

#include "cuda/kernels/intrinsics.cuh"
#include "cuda/kernels/philox.cuh"
#include "tessera/kernels/arguments/update.hpp"
#include "tessera/kernels/state_rounding.hpp"

namespace tessera {

/// The random words of `kCount` neighbouring elements, of which a run's element i is the first; none for fp32.
template <class S, int kCount>
struct RoundingWords {
  std::uint32_t word[kCount] = {};

  __device__ __forceinline__ RoundingWords(const StepScalars* scalars, const DecayRun& run, std::int64_t i) {
    if constexpr (!std::is_same_v<S, float>) {
      const std::uint64_t first = rounding_word(scalars->step, run.first + i - run.begin);
      const auto block = [&](std::uint64_t number) {
        return philox_block(scalars->seed, RandomUse::rounding, run.tensor, number / 4);
      };
      if (first % 4 == 0) {
#pragma unroll
        for (int j = 0; j < kCount; j += 4) {
          const PhiloxBlock four = block(first + j);
#pragma unroll
          for (int k = 0; k < 4 && j + k < kCount; ++k) word[j + k] = four.word[k];
        }
      } else {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          const PhiloxBlock four = block(first + j);
          const std::uint64_t k = (first + j) % 4;  // an index that varies would put the words into local memory
          word[j] = k == 0 ? four.word[0] : k == 1 ? four.word[1] : k == 2 ? four.word[2] : four.word[3];
        }
      }
    }
  }

  /// Returns what element j holds once x is stored, by bits `shift` and on of its word.
  __device__ __forceinline__ float rounded(float x, int j, int shift) const {
    if constexpr (std::is_same_v<S, float>) return x;
    return __uint_as_float(rounded_at_random(__float_as_uint(x), word[j] >> shift));
  }
};

}  // namespace tessera
