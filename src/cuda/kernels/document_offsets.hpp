#pragma once
// Where cuDNN finds the documents of a batch.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/gpu/layouts.hpp"

namespace tessera {

/// Elements from row to row of the tensors of CudnnDocumentsLayout.
struct DocumentStrides {
  std::int32_t query = 0, key = 0, value = 0, output = 0, log_sum_exp = 0;
};

/// Writes lengths and offsets of `documents` documents that begin, and end, at `borders` [documents + 1].
void launch_document_offsets(cudaStream_t stream, const std::int32_t* borders, std::int64_t documents,
                             const DocumentStrides& strides, const CudnnDocumentsLayout& to);

}  // namespace tessera
