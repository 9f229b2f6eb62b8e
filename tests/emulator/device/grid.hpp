#pragma once
// Runs the threads of a grid. Without barriers: every thread of a block runs to its end before the next one starts.

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <cstddef>
#include <memory>

inline thread_local uint3 threadIdx{}, blockIdx{};
inline thread_local dim3 blockDim{}, gridDim{};

namespace emulator {

inline void*& dynamic_shared_memory() {
  static thread_local void* memory = nullptr;
  return memory;
}

template <class Body>
void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, Body&& body) {
  const std::unique_ptr<std::byte[]> shared(new std::byte[dynamic_shared_bytes + 256]);
  dynamic_shared_memory() = shared.get();
  gridDim = grid, blockDim = block;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) body();
}

}  // namespace emulator
