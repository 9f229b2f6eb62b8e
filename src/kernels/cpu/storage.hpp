#pragma once
// From a dtype to the index of its functions in VectorKernels.

#include "kernels/cpu/vector/vector_kernels.hpp"
#include "tessera/base/dtype.hpp"

namespace tessera {

inline int storage_index(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return StorageIndex::fp32;
    case DType::bf16:
      return StorageIndex::bf16;
    case DType::fp16:
      return StorageIndex::fp16;
    default:
      throw InternalError("tensors of dtype {} have no kernels: fp32, bf16, fp16", name_of(dtype));
  }
}

}  // namespace tessera
