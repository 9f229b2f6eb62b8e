#include "cuda/backend/stream_writes.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

__global__ void store_word_kernel(std::uint32_t* word, std::uint32_t value) { *word = value; }

}  // namespace

void launch_store_word(cudaStream_t stream, std::uint32_t* word, std::uint32_t value) {
  launch(stream, dim3(1), dim3(1), 0, store_word_kernel, word, value);
}

}  // namespace tessera
