#include "backend/cuda/fill_pattern.hpp"
#include "tessera/backend/cuda/launch.hpp"
#include "tessera/backend/pattern.hpp"

namespace tessera {

namespace {

__global__ void fill_pattern_kernel(std::uint8_t* memory, std::int64_t bytes) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = first; i < bytes; i += step) memory[i] = pattern_at(static_cast<std::uint64_t>(i));
}

}  // namespace

void launch_fill_pattern(cudaStream_t stream, std::byte* memory, std::int64_t bytes) {
  constexpr std::int64_t kThreads = 256, kMostBlocks = 4096;
  const std::int64_t blocks = (bytes + kThreads - 1) / kThreads;
  launch(stream, dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks)), dim3(kThreads), 0,
         fill_pattern_kernel, reinterpret_cast<std::uint8_t*>(memory), bytes);
}

}  // namespace tessera
