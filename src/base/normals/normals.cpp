#include "base/normals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "tessera/base/counter_rng.hpp"

#define TESSERA_KERNEL "base/normals/normals_kernel.inc"
#include "tessera/base/each_instruction_set.inc"

namespace tessera {

detail::FillNormals* detail::fill_normals_of(InstructionSet set) {
  constexpr FillNormals* versions[] = TESSERA_VERSIONS(fill_blocks);
  return versions[static_cast<std::size_t>(set)];
}

void detail::fill_block(const NormalStream& stream, std::uint64_t block, float scale, float* out) {
  const std::array<float, 4> values = normal_block(stream.seed, stream.stream, block);
  std::ranges::transform(values, out, [scale](float value) { return scale * value; });
}

void fill_normals(std::uint64_t seed, std::uint32_t stream, std::uint64_t first, float scale, std::span<float> out) {
  static detail::FillNormals* const best = detail::fill_normals_of(best_instruction_set());
  const detail::NormalStream numbers{seed, stream};
  const std::uint64_t end = first + out.size();
  float* next = out.data();
  /// Fills elements up to `stop` of the block in which `first` lies.
  const auto fill_part = [&](std::uint64_t stop) {
    std::array<float, 4> block{};
    detail::fill_block(numbers, first / 4, scale, block.data());
    for (; first < stop; ++first) *next++ = block.at(first % 4);
  };
  if (first % 4 != 0) fill_part(std::min(end, (first / 4 + 1) * 4));
  const std::uint64_t blocks = (end - first) / 4;
  best(numbers, first / 4, static_cast<std::int64_t>(blocks), scale, next);
  first += 4 * blocks, next += 4 * blocks;
  if (first < end) fill_part(end);
}

void detail::fill_words(InstructionSet set, const NormalStream& stream, std::uint64_t first,
                        std::span<std::uint32_t> out) {
  using Fill = void(const NormalStream&, std::uint64_t, std::span<std::uint32_t>);
  constexpr Fill* versions[] = TESSERA_VERSIONS(fill_words);
  versions[static_cast<std::size_t>(set)](stream, first, out);
}

void fill_words(std::uint64_t seed, RandomUse use, std::uint32_t stream, std::uint64_t first,
                std::span<std::uint32_t> out) {
  static const InstructionSet best = best_instruction_set();
  detail::fill_words(best, {seed, stream, use}, first, out);
}

}  // namespace tessera
