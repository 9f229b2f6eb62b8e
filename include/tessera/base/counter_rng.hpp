#pragma once
// Counter-based random numbers (Philox4x32-10, Salmon et al., SC11): value = f(key, counter), no state. The same
// element gets the same number on any rank, in any order, on CPU and GPU.

#include <array>
#include <cstdint>
#include <span>

namespace tessera {

/// The use of a stream of random numbers: keeps the uses of one seed apart.
enum class RandomUse : std::uint32_t {
  initialization = 1,
  dropout = 2,
  sample_order = 3,
  synthetic_data = 4,
  chaos = 5,
  generation = 6,
  rounding = 7
};

/// Returns four 32-bit numbers for (seed, use, high counter, low counter).
std::array<std::uint32_t, 4> philox(std::uint64_t seed, RandomUse use, std::uint32_t stream, std::uint64_t counter);

/// Computes out[i] = word first + i of a stream, whose four words e, e + 1, ... are philox(seed, use, stream, e / 4).
void fill_words(std::uint64_t seed, RandomUse use, std::uint32_t stream, std::uint64_t first,
                std::span<std::uint32_t> out);

/// Maps to [0, 1) uniformly: 24 bits of one 32-bit number.
inline float to_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Returns the standard normals of global elements 4 block .. 4 block + 3 of tensor number `stream`. Box-Muller in
/// double, so that they do not depend on vector libraries. Each pair shares half of a Philox block.
std::array<float, 4> normal_block(std::uint64_t seed, std::uint32_t stream, std::uint64_t block);

/// Computes out[i] = scale * standard normal of global element first + i: the bits of normal_block(), with the
/// processor's vector instructions. It takes about 1.5 ns per element on one core with AVX-512.
void fill_normals(std::uint64_t seed, std::uint32_t stream, std::uint64_t first, float scale, std::span<float> out);

}  // namespace tessera
