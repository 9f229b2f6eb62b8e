#pragma once
// The kernels behind Device::fill_pattern and Device::touched_bytes.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tessera {

/// Enqueues pattern_at(i) into memory[i], i < bytes.
void launch_fill_pattern(cudaStream_t stream, std::byte* memory, std::int64_t bytes);

/// Enqueues *touched += bytes of the pieces (kTouchPiece) of memory[0 .. bytes) in which a byte i is not
/// pattern_at(offset + i). `memory` is aligned to 16 bytes, `offset` a multiple of a piece.
void launch_count_touched(cudaStream_t stream, const std::byte* memory, std::int64_t bytes, std::int64_t offset,
                          unsigned long long* touched);

}  // namespace tessera
