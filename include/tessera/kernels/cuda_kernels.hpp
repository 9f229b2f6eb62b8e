#pragma once
// The kernels of NVIDIA GPUs. In a build without CUDA the function is there too, and says so.

#include <memory>

#include "tessera/config/enums.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/kernels/product_choices.hpp"

namespace tessera {

/// How the GPU's kernels do what they can do in more than one way.
struct CudaKernelSettings {
  ProductSettings products;  ///< which algorithms matrix products run with
  AttentionChoice attention = AttentionChoice::automatic;
  bool deterministic = true;  ///< every sum in a fixed order
  /// The attention of the run, which the choice is made for: its shape and storage, and whether it has dropout. Without
  /// a shape (batch 0) automatic decides at each call.
  AttentionShape shape;
  DType dtype = DType::bf16;
  bool dropout = false;
};

/// UsageError where the current device cannot compute such attention with our own kernels (a block's shared memory): to
/// be asked before anything is computed.
void require_cuda_attention(const AttentionShape& shape, DType dtype);

/// Kernels for the current device. Opens cuBLASLt (UsageError where it is not found). `workspace` is
/// KernelNeeds::workspace() of device memory, aligned to 256 bytes, for these kernels alone; their calls must be on
/// one stream (or ordered). Attention is computed by cuDNN where settings.attention wants or allows it and a library is
/// found that can; description() says what was chosen. UsageError where cuDNN is demanded and cannot be had. A kernel
/// cannot throw: tokens and targets outside of the vocabulary make the loss NaN.
std::unique_ptr<Kernels> make_cuda_kernels(void* workspace, const CudaKernelSettings& settings = {});

}  // namespace tessera
