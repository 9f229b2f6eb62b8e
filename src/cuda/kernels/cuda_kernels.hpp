#pragma once
// The GPU's kernels. Methods launch on the stream and return; they are defined in one file per subject.

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

  void embedding_forward(Stream& stream, const EmbeddingForward& a) override;
  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override;
  void norm_forward(Stream& stream, const NormForward& a) override;
  void norm_backward(Stream& stream, const NormBackward& a) override;
  void to_fp8(Stream& stream, const Fp8Arguments& a) override;
  void largest_magnitude(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                         std::int64_t* largest) override;
  void to_codes(Stream& stream, const void* x, DType dtype, std::int64_t n, DType rounded_to,
                const std::int64_t* largest, void* codes) override;
  void linear_forward(Stream& stream, const LinearForward& a) override;
  void linear_backward(Stream& stream, const LinearBackward& a) override;
  void gelu(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
            float* largest) override;
  void attention_forward(Stream& stream, const AttentionForward& a) override;
  void attention_backward(Stream& stream, const AttentionBackward& a) override;
  void attention_cached(Stream& stream, const AttentionCached& a) override;
  void rotary(Stream& stream, const RotaryArguments& a) override;
  void glu_forward(Stream& stream, const GluForward& a) override;
  void glu_backward(Stream& stream, const GluBackward& a) override;
  void head(Stream& stream, const HeadArguments& a) override;
  void dropout(Stream& stream, ConstView input, View output, std::int64_t rows, std::int64_t columns,
               const Dropout& dropout) override;
  void cast(Stream& stream, const void* src, DType src_dtype, void* dst, DType dst_dtype, std::int64_t n) override;
  void fill_zero(Stream& stream, void* data, std::int64_t bytes) override;
  void add(Stream& stream, const void* a, DType a_dtype, const void* b, DType b_dtype, void* out, DType out_dtype,
           std::int64_t n) override;
  void square_sum(Stream& stream, const void* x, DType dtype, std::int64_t n, ExactSum* sum) override;
  void checksum(Stream& stream, const void* data, std::int64_t words, std::int64_t first, std::uint64_t* sum) override;
  void adamw(Stream& stream, const UpdateArguments& a) override;
  void muon_direction(Stream& stream, const DirectionArguments& a) override;
  void muon(Stream& stream, const UpdateArguments& a) override;
  void orthogonalize(Stream& stream, const OrthogonalizeArguments& a) override;
  void accumulate_loss(Stream& stream, const AccountArguments& a) override;
  void clip(Stream& stream, const ClipArguments& a) override;
  std::string description() const override;

 private:
  friend class CudaHead;

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
