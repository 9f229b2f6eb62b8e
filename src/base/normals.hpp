#pragma once
// Random words many at a time, and standard normals: the bits of philox() and normal_block(), whatever the processor.
//
// The kernels compute each value in double with vector instructions, and know how far it can be from the value that
// normal_block() rounds. A value whose neighbourhood rounds to one float is that float. The others, about one block in
// ten thousand, are left to normal_block().

#include <cstdint>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/instruction_set.hpp"

namespace tessera::detail {

/// A tensor's numbers, see normal_block().
struct NormalStream {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  RandomUse use = RandomUse::initialization;
};

/// Computes out[i] = scale * number 4 first_block + i of the stream, i < 4 blocks. Returns how many blocks were left to
/// normal_block() because a value was too near to the border between two floats.
using FillNormals = std::int64_t(const NormalStream& stream, std::uint64_t first_block, std::int64_t blocks,
                                 float scale, float* out);
/// Returns the version for a set that this processor supports.
FillNormals* fill_normals_of(InstructionSet set);
/// tessera::fill_words() with a set that this processor supports.
void fill_words(InstructionSet set, const NormalStream& stream, std::uint64_t first, std::span<std::uint32_t> out);
/// One block of them, by normal_block().
void fill_block(const NormalStream& stream, std::uint64_t block, float scale, float* out);

}  // namespace tessera::detail
