// The requirements of attention on a GPU, checked before anything is computed.

#include <cuda_runtime_api.h>

#include "cuda/kernels/attention.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/cuda/check.hpp"
#include "tessera/kernels/cuda_kernels.hpp"

namespace tessera {

void require_narrow_heads(const AttentionShape& shape) {
  if (shape.head_width > kWidestHead) {
    throw refusal("attention with heads of {} does not work", shape.head_width)
        .because("the GPU's kernels keep a row of a head")
        .use("heads of up to {}", kWidestHead);
  }
}

/// Tensor cores' tiles fit every GPU that has them; rows of plain fp32 heads grow with the head.
void require_cuda_attention(const AttentionShape& shape, DType dtype) {
  require_narrow_heads(shape);
  if (dtype != DType::fp32 && shape.head_width <= kWidestTensorCoreHead) return;
  int device = 0, available = 0;
  TESSERA_CHECK_CUDA(cudaGetDevice(&device));
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&available, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const std::int64_t needed = plain_attention_shared_bytes(shape.head_width);
  if (needed <= available) return;
  throw refusal("attention with heads of {} in {} does not work", shape.head_width, name_of(dtype))
      .because("its kernels take {} of shared memory per block, but this GPU has {}", format_bytes(needed),
               format_bytes(available))
      .use("heads of up to {}, precision.compute = bf16 with heads of up to {}, or another GPU",
           plain_attention_shared_bytes(128) <= available ? 128 : 64, kWidestTensorCoreHead);
}

}  // namespace tessera
