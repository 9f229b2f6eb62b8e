#pragma once
// The one summation of all communicators, so that they agree to the bit. Terms are widened to fp32 and added in a fixed
// binary tree over the sources. A node splits at the largest power of two below its size.

#include <cstdint>

#include "tessera/base/dtype.hpp"
#include "tessera/base/instruction_set.hpp"

namespace tessera {

/// Computes sum[i] = tree over s of float(sources[s][i]), i < elements, stored as `sum_dtype`. Source s is an array of
/// `wire_dtype`. Both dtypes are fp32, bf16 or fp16; `sum` may not overlap a source. Bits do not depend on the
/// instruction set.
void tree_sum(const void* const* sources, std::int64_t count, DType wire_dtype, void* sum, DType sum_dtype,
              std::int64_t elements);

/// Converts elements of one dtype to another (fp32, bf16, fp16): the tree over one source.
inline void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t elements) {
  tree_sum(&from, 1, from_dtype, to, to_dtype, elements);
}

namespace detail {

using TreeSum = void(const void* const* sources, std::int64_t count, DType wire_dtype, void* sum, DType sum_dtype,
                     std::int64_t elements);
/// Returns the version for a set that this processor supports.
TreeSum* tree_sum_of(InstructionSet set);

}  // namespace detail

}  // namespace tessera
