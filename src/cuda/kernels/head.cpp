// Final norm, vocabulary matmul and cross-entropy, per chunk of tokens. One matmul makes logits, and a kernel their
// gradient, which two matmuls take to the input and to the table. Rows of zeros behind the vocabulary keep matmuls
// whole, because over rows that do not end on 16 bytes they are several times slower.

#include "cuda/kernels/cross_entropy.hpp"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/finish_matmul.hpp"
#include "kernels/final_norm.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

/// One call of the head.
class CudaHead {
 public:
  CudaHead(CudaKernels& kernels, cudaStream_t stream, const HeadLoss& a)
      : kernels_(kernels),
        stream_(stream),
        a_(a),
        scratch_(a.scratch, scratch_bytes_of<CudaHeadLayout>(a.shape(), kernels.limits_.head_bytes)),
        layout_(scratch_, a.shape(), kernels.limits_.head_bytes) {}

  void run() {
    kernels_.enqueue(stream_, final_norm(a_, layout_));
    for (std::int64_t chunk = 0; chunk < layout_.chunks.count(); ++chunk) {
      const Tile tokens = layout_.chunks[chunk];
      make_logits(tokens);
      softmax(tokens);
      if (!a_.training()) continue;
      make_input_gradient(tokens);
      if (a_.table_gradient) make_table_gradient(tokens, chunk == 0, chunk == layout_.chunks.count() - 1);
    }
    sum_losses(stream_, layout_.token_loss, 1, a_.tokens, a_.loss, a_.token_losses);
    if (a_.sample_losses != nullptr)
      sum_losses(stream_, layout_.token_loss, a_.samples, a_.tokens / a_.samples, a_.sample_losses, nullptr);
    if (a_.training()) kernels_.enqueue(stream_, final_norm_backward(a_, layout_));
  }

 private:
  void make_logits(const Tile& tokens) {
    Matmul p;
    p.m = tokens.size(), p.n = a_.table_rows, p.k = a_.width;
    p.a = {normalized(tokens), false};
    p.b = {a_.table, true};
    p.d = {layout_.logits, a_.logits, layout_.logits_stride};
    kernels_.matmuls_.require(stream_, p);
  }

  void softmax(const Tile& tokens) {
    CrossEntropy c;
    c.rows = tokens.size(), c.vocab = a_.vocab, c.stride = layout_.logits_stride;
    c.logits = layout_.logits, c.logits_type = a_.logits, c.compute = a_.input.dtype;
    c.targets = a_.targets + tokens.begin;
    c.token_loss = layout_.token_loss + tokens.begin;
    c.gradient = layout_.logit_gradient;
    c.scalars = a_.training() ? a_.scalars : nullptr;
    cross_entropy(stream_, c);
  }

  /// Computes d normalised = d logits table.
  void make_input_gradient(const Tile& tokens) {
    Matmul p;
    p.m = tokens.size(), p.n = a_.width, p.k = a_.table_rows;
    p.a = {logit_gradient(), false};
    p.b = {a_.table, false};
    p.d = View{layout_.normalized_gradient, a_.input.dtype, a_.width}.rows_from(tokens.begin);
    kernels_.matmuls_.require(stream_, p);
  }

  /// Computes d table = (d logits)^T normalised: summed over chunks in fp32, in the gradient itself where it is fp32.
  void make_table_gradient(const Tile& tokens, bool first_chunk, bool last_chunk) {
    const bool separate = layout_.table_sum != nullptr;
    const View sum = separate ? View{layout_.table_sum, DType::fp32, a_.width} : a_.table_gradient.view;
    Matmul p;
    p.m = a_.table_rows, p.n = a_.width, p.k = tokens.size();
    p.a = {logit_gradient(), true};
    p.b = {normalized(tokens), false};
    kernels_.store_gradient_matmul(stream_, p, {sum, !first_chunk || (!separate && a_.table_gradient.adds)});
    if (separate && last_chunk) finish_gradient(stream_, {sum, 0, a_.table_rows, a_.width}, a_.table_gradient);
  }

  ConstView normalized(const Tile& tokens) const {
    return ConstView{layout_.normalized, a_.input.dtype, a_.width}.rows_from(tokens.begin);
  }
  /// Returns [chunk, table_rows] in the compute type.
  ConstView logit_gradient() const { return {layout_.logit_gradient, a_.input.dtype, layout_.logits_stride}; }

  CudaKernels& kernels_;
  cudaStream_t stream_;
  const HeadLoss& a_;
  ScratchLayout scratch_;
  CudaHeadLayout layout_;
};

void CudaKernels::enqueue(cudaStream_t stream, const HeadLoss& a) { CudaHead(*this, stream, a).run(); }

}  // namespace tessera
