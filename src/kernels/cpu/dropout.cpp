#include "kernels/attention_mask.hpp"
#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/dropout_mask.hpp"
#include "kernels/cpu/storage.hpp"
#include "tessera/base/counter_rng.hpp"

namespace tessera {

DropoutMask::DropoutMask(const Dropout& dropout)
    : dropout_(dropout),
      kept_(1.0f / (1.0f - dropout.probability)),
      site_(static_cast<std::uint32_t>(dropout.layer) * 4 + static_cast<std::uint32_t>(dropout.site)) {
  TESSERA_ASSERT(dropout.scalars != nullptr, "dropout needs the step's scalars for its seed");
}

std::uint64_t DropoutMask::key_of(std::int64_t sample) const {
  // A counter has 64 bits for the element, so sample and step go into the key: seed -> (sample) -> (step).
  const auto of_sample = philox(dropout_.scalars->seed, RandomUse::dropout, site_,
                                static_cast<std::uint64_t>(dropout_.scalars->first_sample + sample));
  const auto of_step = philox(of_sample[0] | static_cast<std::uint64_t>(of_sample[1]) << 32, RandomUse::dropout, site_,
                              static_cast<std::uint64_t>(dropout_.scalars->step));
  return of_step[0] | static_cast<std::uint64_t>(of_step[1]) << 32;
}

std::array<std::uint32_t, 4> DropoutMask::block(std::uint64_t key, std::uint64_t number) const {
  return philox(key, RandomUse::dropout, site_, number);
}

float DropoutMask::mask_of(std::uint32_t bits) const { return to_uniform(bits) < dropout_.probability ? 0.0f : kept_; }

void DropoutMask::fill(std::int64_t sample, std::uint64_t first, std::int64_t n, float* mask) const {
  const std::uint64_t key = key_of(sample);
  std::int64_t i = 0;
  while (i < n) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(i);
    const auto bits = block(key, element / 4);
    for (std::uint64_t word = element % 4; word < 4 && i < n; ++word, ++i) mask[i] = mask_of(bits[word]);
  }
}

void DropoutMask::fill_probabilities(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t first,
                                     std::int64_t n, float* mask) const {
  const std::uint64_t key = key_of(sample);
  const auto place_of = [&](std::int64_t i) {
    return probability_mask_place(static_cast<std::uint64_t>(dropout_.sequence), static_cast<std::uint64_t>(head),
                                  static_cast<std::uint64_t>(query), static_cast<std::uint64_t>(first + i));
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const ProbabilityMaskPlace place = place_of(i);
    if (i >= 8 && place_of(i - 8).block == place.block) continue;  // already made with that one
    const auto bits = block(key, place.block);
    mask[i] = mask_of(bits[place.word]);
    if (i + 8 < n && place_of(i + 8).block == place.block) mask[i + 8] = mask_of(bits[place_of(i + 8).word]);
  }
}

void DropoutMask::fill_row(std::int64_t row, std::int64_t width, std::int64_t column, std::int64_t n,
                           float* mask) const {
  row += dropout_.first_row;
  fill(row / dropout_.sequence, static_cast<std::uint64_t>((row % dropout_.sequence) * width + column), n, mask);
}

void CpuKernels::compute(const ApplyDropout& a) {
  const DropoutMask dropout_mask(a.dropout);
  const int from = storage_index(a.input.dtype), to = storage_index(a.output.dtype);
  pool_.parallel_for(a.rows, [&](std::int64_t row, int worker) {
    ScratchLayout scratch = scratch_of(worker);
    auto* mask = scratch.take<float>(a.columns);
    auto* values = scratch.take<float>(a.columns);
    dropout_mask.fill_row(row, a.columns, 0, a.columns, mask);
    vector_.to_float[from](a.input.at(row), values, a.columns);
    vector_.multiply(values, mask, values, a.columns);
    vector_.from_float[to](values, a.output.at(row), a.columns);
  });
}

}  // namespace tessera
