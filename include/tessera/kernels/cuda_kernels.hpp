#pragma once
// The kernels of NVIDIA GPUs. A build without CUDA has the same function; it reports that CUDA is missing.

#include <memory>

#include "tessera/config/enums.hpp"
#include "tessera/kernels/gemm_algorithms.hpp"
#include "tessera/kernels/kernels.hpp"

namespace tessera {

/// Choices among the implementations of the GPU's kernels.
struct CudaKernelSettings {
  GemmSettings gemm;  ///< the algorithms of matmuls
  AttentionChoice attention = AttentionChoice::automatic;
  bool deterministic = true;  ///< every sum in a fixed order
  bool own_backward = false;  ///< attention's backward is by own kernels, as in the run's earlier part
  /// The attention of the run, for which the choice is made: its shape and storage, and whether it has dropout. Without
  /// a shape (batch 0) automatic decides at each call.
  AttentionShape shape;
  std::int64_t query_stride = 0, key_stride = 0;  ///< elements from row to row of queries, and of keys and values
  DType dtype = DType::bf16;
  bool dropout = false;
  bool windows = false;  ///< other layers have windows
  bool fp8 = false;      ///< linears multiply in fp8: UsageError if the GPU cannot
};

/// Makes kernels for the current device. Opens cuBLASLt (UsageError where it is not found). `workspace` is
/// KernelNeeds::workspace() of device memory, aligned to 256 bytes, for these kernels alone; their calls must be on one
/// stream (or ordered). cuDNN computes attention if settings.attention wants or allows it and a capable library is
/// found; description() names the choice. UsageError if cuDNN is demanded and not available. Because a kernel cannot
/// throw, tokens and targets outside of the vocabulary make the loss NaN.
std::unique_ptr<Kernels> make_cuda_kernels(void* workspace, const CudaKernelSettings& settings = {});

}  // namespace tessera
