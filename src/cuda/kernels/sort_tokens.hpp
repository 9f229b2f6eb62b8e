#pragma once
// The positions of a micro-batch in order of their tokens.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera {

/// Sorts token << 32 | position over all positions. `keys` and `merged`: [count] each; returns the one that has the
/// result. A negative token sorts as a large one.
const std::uint64_t* sort_tokens(cudaStream_t stream, const std::int32_t* tokens, std::int64_t count,
                                 std::uint64_t* keys, std::uint64_t* merged);

}  // namespace tessera
