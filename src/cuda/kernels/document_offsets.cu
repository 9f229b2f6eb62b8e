#include "cuda/kernels/document_offsets.hpp"
#include "cuda/kernels/grid.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 128;

__global__ void __launch_bounds__(kThreads) document_offsets_kernel(const std::int32_t* borders, std::int32_t documents,
                                                                    DocumentStrides strides, CudnnDocumentsLayout to) {
  const auto i = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i > documents) return;
  const std::int32_t first = borders[i];
  if (i < documents) to.lengths[i] = borders[i + 1] - first;
  to.query[i] = first * strides.query;
  to.key[i] = first * strides.key;
  to.value[i] = first * strides.value;
  to.output[i] = first * strides.output;
  to.log_sum_exp[i] = first * strides.log_sum_exp;
}

}  // namespace

void launch_document_offsets(cudaStream_t stream, const std::int32_t* borders, std::int64_t documents,
                             const DocumentStrides& strides, const CudnnDocumentsLayout& to) {
  launch(stream, blocks_for(documents + 1, kThreads), dim3(kThreads), 0, document_offsets_kernel, borders,
         static_cast<std::int32_t>(documents), strides, to);
}

}  // namespace tessera
