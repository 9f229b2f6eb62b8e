#pragma once
// The GPU's kernels. The overloads of enqueue() launch on the stream and return; they are defined in one file per
// subject.

#include <string>

#include "cuda/kernels/attention_choice.hpp"
#include "cuda/kernels/matmul.hpp"
#include "kernels/gpu/layouts.hpp"
#include "tessera/kernels/cuda_kernels.hpp"
#include "tessera/kernels/kernels.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

class CudaKernels final : public Kernels {
 public:
  /// The limits of work in pieces; other values are for tests.
  struct Limits {
    std::int64_t head_bytes = CudaHeadLayout::kLogitBytes;   ///< of logits of a chunk of the head
    std::int64_t workspace_floats = kSumWorkspaceBytes / 4;  ///< of a piece of a matmul
    std::int64_t library_bytes = kMatmulWorkspaceBytes;      ///< of cuBLASLt's own workspace

    constexpr std::int64_t workspace_bytes() const {
      return library_bytes + workspace_floats * static_cast<std::int64_t>(sizeof(float));
    }
  };

  /// `workspace`: limits.workspace_bytes() of device memory.
  CudaKernels(void* workspace, const Limits& limits, const CudaKernelSettings& settings = {});

  void run(Stream& stream, const KernelArguments& call) override;
  Implementation description() const override;

 private:
  friend class CudaHead;

  void enqueue(cudaStream_t stream, const EmbeddingForward& a);
  void enqueue(cudaStream_t stream, const EmbeddingBackward& a);
  void enqueue(cudaStream_t stream, const NormForward& a);
  void enqueue(cudaStream_t stream, const NormBackward& a);
  void enqueue(cudaStream_t stream, const ToFp8& a);
  void enqueue(cudaStream_t stream, const LargestMagnitude& a);
  void enqueue(cudaStream_t stream, const ToCodes& a);
  void enqueue(cudaStream_t stream, const LinearForward& a);
  void enqueue(cudaStream_t stream, const LinearBackward& a);
  void enqueue(cudaStream_t stream, const GeluForward& a);
  void enqueue(cudaStream_t stream, const AttentionForward& a);
  void enqueue(cudaStream_t stream, const AttentionBackward& a);
  void enqueue(cudaStream_t stream, const AttentionCached& a);
  void enqueue(cudaStream_t stream, const Rotate& a);
  void enqueue(cudaStream_t stream, const GluForward& a);
  void enqueue(cudaStream_t stream, const GluBackward& a);
  void enqueue(cudaStream_t stream, const HeadLoss& a);
  void enqueue(cudaStream_t stream, const ApplyDropout& a);
  void enqueue(cudaStream_t stream, const Cast& a);
  void enqueue(cudaStream_t stream, const FillZero& a);
  void enqueue(cudaStream_t stream, const Add& a);
  void enqueue(cudaStream_t stream, const SquareSum& a);
  void enqueue(cudaStream_t stream, const AddChecksum& a);
  void enqueue(cudaStream_t stream, const ParameterUpdate& a);
  void enqueue(cudaStream_t stream, const MuonDirection& a);
  void enqueue(cudaStream_t stream, const Orthogonalize& a);
  void enqueue(cudaStream_t stream, const AddLoss& a);
  void enqueue(cudaStream_t stream, const Clip& a);
  void adamw(cudaStream_t stream, const ParameterUpdate& a);
  void muon(cudaStream_t stream, const ParameterUpdate& a);

  /// Computes p (whose c, d and epilogue are not used) into `workspace_`, rows by rows, and calls finish(FinishRows).
  template <class Finish>
  void matmul_by_pieces(cudaStream_t stream, Matmul p, Finish finish);
  /// Computes gradient = or += p (whose c and d are not used), rounded once.
  void store_gradient_matmul(cudaStream_t stream, Matmul p, const GradientView& gradient);

  Matmuls matmuls_;
  float* workspace_;  ///< limits_.workspace_floats: matmuls by pieces and column sums
  Limits limits_;
  bool fuses_gelu_;  ///< the library's forward GELU may be used
  AttentionByChoice attention_;
};

}  // namespace tessera
