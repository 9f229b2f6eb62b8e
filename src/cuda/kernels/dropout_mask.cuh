#pragma once
// The CPU's dropout masks (kernels/cpu/dropout.cpp), bit for bit: Philox4x32-10 (Salmon et al., SC11) on the element's
// number, keyed by seed, sample, step and site.

#include <cstdint>

#include "cuda/kernels/packs.cuh"
#include "cuda/kernels/philox.cuh"
#include "tessera/kernels/arguments/dropout.hpp"

namespace tessera {

/// A Dropout as kernels take it. Off: probability 0.
struct DropoutSource {
  float probability = 0, kept = 1;
  std::int64_t sequence = 1, first_row = 0;
  std::uint32_t site = 0;
  const StepScalars* scalars = nullptr;

  DropoutSource() = default;
  explicit DropoutSource(const Dropout& d)
      : probability(d.probability),
        kept(1.0f / (1.0f - d.probability)),
        sequence(d.sequence),
        first_row(d.first_row),
        site(static_cast<std::uint32_t>(d.layer) * 4 + static_cast<std::uint32_t>(d.site)),
        scalars(d.scalars) {
    TESSERA_ASSERT(!d.on() || scalars != nullptr, "dropout needs the step's scalars for its seed");
  }

  __device__ bool on() const { return probability > 0; }

  /// Returns the key of one sample's masks (numbered from the micro-batch's first).
  __device__ std::uint64_t key_of(std::int64_t sample) const {
    const PhiloxBlock of_sample = philox_block(scalars->seed, RandomUse::dropout, site,
                                               static_cast<std::uint64_t>(scalars->first_sample + sample));
    const PhiloxBlock of_step = philox_block(of_sample.word[0] | static_cast<std::uint64_t>(of_sample.word[1]) << 32,
                                             RandomUse::dropout, site, static_cast<std::uint64_t>(scalars->step));
    return of_step.word[0] | static_cast<std::uint64_t>(of_step.word[1]) << 32;
  }

  /// Returns 0 or 1/(1-p).
  __device__ float mask_of(std::uint32_t bits) const {
    return static_cast<float>(bits >> 8) * 0x1p-24f < probability ? 0.0f : kept;
  }

  /// Returns the masks of `Count` elements from number `first` of the sample with this key.
  template <int Count>
  __device__ void masks(std::uint64_t key, std::uint64_t first, float (&mask)[Count]) const {
    PhiloxBlock block = philox_block(key, RandomUse::dropout, site, first / 4);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const std::uint64_t element = first + static_cast<std::uint64_t>(i);
      if (i > 0 && element % 4 == 0) block = philox_block(key, RandomUse::dropout, site, element / 4);
      const auto word = static_cast<std::uint32_t>(element % 4);
      const std::uint32_t low = word == 0 ? block.word[0] : block.word[1];
      const std::uint32_t high = word == 2 ? block.word[2] : block.word[3];
      mask[i] = mask_of(word < 2 ? low : high);
    }
  }

  /// The same for columns column .. of row `row` of a [tokens, width] matrix.
  template <int Count>
  __device__ void row_masks(std::int64_t row, std::int64_t width, std::int64_t column, float (&mask)[Count]) const {
    row += first_row;
    masks(key_of(row / sequence), static_cast<std::uint64_t>((row % sequence) * width + column), mask);
  }
};

}  // namespace tessera
