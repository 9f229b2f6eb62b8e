#pragma once
// Chooses between cuDNN and Tessera's own kernels for attention. For a run's attention this is decided once, at its
// start, and reported. A later call that the choice cannot serve is an error. Layers with a window take own kernels.

#include <memory>
#include <string>

#include "cuda/kernels/cudnn_attention.hpp"
#include "tessera/kernels/cuda_kernels.hpp"

namespace tessera {

class AttentionByChoice {
 public:
  /// `workspace`: device memory for forward, aligned to 256 bytes; used during a call. UsageError if cuDNN is demanded
  /// and not available.
  AttentionByChoice(const CudaKernelSettings& settings, void* workspace, std::int64_t workspace_bytes);

  /// Launches it through cuDNN. Returns false without launching if Tessera's own kernels are to do it.
  bool run(cudaStream_t stream, const AttentionForward& a);
  bool run(cudaStream_t stream, const AttentionBackward& a);

  /// Returns "attention by cuDNN 9.19.0", "attention by own kernels (run.attention = own)", ...
  const Implementation& description() const { return description_; }

 private:
  bool demanded() const;
  /// Returns whether own kernels compute an attention beside the library's, as cudnn_obstacle() says of windows.
  static bool is_ours(const AttentionShape& shape) { return shape.has_window(); }
  /// Decides for the attention of the run, or for every call by itself.
  void choose();
  [[noreturn]] void refuse(const std::string& obstacle) const;

  CudaKernelSettings settings_;
  void* workspace_;
  std::int64_t workspace_bytes_;
  std::unique_ptr<CudnnAttention> library_;  ///< null: own kernels
  bool backward_ = false;                    ///< the library computes backward, too
  bool must_ = false;  ///< cuDNN was demanded, or chosen for the run: not being able to is an error
  Implementation description_;
};

}  // namespace tessera
