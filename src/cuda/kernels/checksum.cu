#include "cuda/kernels/checksum.cuh"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kWordsOfThread = 32;  ///< few enough blocks that their additions to one number do not queue

__global__ void __launch_bounds__(kThreads)
    checksum_kernel(const std::uint32_t* words, std::int64_t n, std::int64_t first, Checksum* sum) {
  Checksum found[1] = {};
  const std::int64_t begin = std::int64_t{blockIdx.x} * kThreads * kWordsOfThread + threadIdx.x;
#pragma unroll 8
  for (int k = 0; k < kWordsOfThread; ++k) {
    const std::int64_t i = begin + std::int64_t{k} * kThreads;
    if (i < n) found[0] += checksum_of(words[i], first + i);
  }
  add_block_sums<kThreads>(found, sum);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const AddChecksum& a) {
  if (a.words == 0) return;
  launch(stream, blocks_for(a.words, kThreads * kWordsOfThread), dim3(kThreads), 0, checksum_kernel,
         static_cast<const std::uint32_t*>(a.data), a.words, a.first, reinterpret_cast<Checksum*>(a.sum));
}

}  // namespace tessera
