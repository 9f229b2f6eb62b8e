#pragma once
// The kernel behind Device::fill_pattern.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tessera {

/// Enqueues pattern_at(i) into memory[i], i < bytes.
void launch_fill_pattern(cudaStream_t stream, std::byte* memory, std::int64_t bytes);

}  // namespace tessera
