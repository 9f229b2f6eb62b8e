#pragma once
// The fixed tree over contributions on a GPU: the sum of a reduce_scatter after the all-to-all.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tessera/base/dtype.hpp"

namespace tessera {

/// The places of a group's contributions: member m's [elements] at received + m * elements, but `self`'s at `own`.
struct TreeSources {
  const void* received = nullptr;
  const void* own = nullptr;
  std::int64_t members = 0, self = 0;
};

/// Enqueues sum = the binary tree over the members, terms widened to fp32, stored in sum_dtype: the bits of the CPU's
/// tree_sum. A node splits at the largest power of two below its size. At most 4,096 members. Types are fp32, bf16 or
/// fp16.
void enqueue_tree_sum(cudaStream_t stream, const TreeSources& sources, DType wire_dtype, void* sum, DType sum_dtype,
                      std::int64_t elements);

}  // namespace tessera
