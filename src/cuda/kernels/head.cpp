// Final norm, vocabulary matmul and cross-entropy, per chunk of tokens. One matmul makes logits in fp32. A kernel turns
// them into their own gradient in place. Two matmuls take it to the input and to the table.

#include "cuda/kernels/cross_entropy.hpp"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/finish_matmul.hpp"
#include "kernels/final_norm.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

/// A vocabulary that is no multiple of 64 is cut in two. Matmuls over rows that do not end on 16 bytes are several
/// times slower, so those few columns get separate matmuls.
struct VocabularyCut {
  explicit VocabularyCut(const HeadArguments& a) : even(size_of(a.input.dtype) == 2 ? a.vocab / 64 * 64 : a.vocab) {
    if (even == 0) even = a.vocab;
  }
  std::int64_t even;
};

}  // namespace

/// One call of the head.
class CudaHead {
 public:
  CudaHead(CudaKernels& kernels, Stream& stream, const HeadArguments& a)
      : kernels_(kernels),
        stream_(stream),
        cuda_stream_(cuda_stream(stream)),
        a_(a),
        cut_(a),
        scratch_(a.scratch, kernels.head_scratch_capacity(a)),
        layout_(scratch_, a.tokens, a.width, a.vocab, a.input.dtype, a.table_gradient.view.dtype, a.training(),
                kernels.limits_.head_logits) {}

  void run() {
    kernels_.norm_forward(stream_, final_norm(a_, layout_));
    for (std::int64_t chunk = 0; chunk < layout_.chunks.count(); ++chunk) {
      const Tile tokens = layout_.chunks[chunk];
      make_logits(tokens);
      softmax(tokens);
      if (!a_.training()) continue;
      make_input_gradient(tokens);
      make_table_gradient(tokens, chunk == 0, chunk == layout_.chunks.count() - 1);
    }
    sum_losses(cuda_stream_, layout_.token_loss, a_.tokens, a_.loss, a_.token_losses);
    if (a_.training()) kernels_.norm_backward(stream_, final_norm_backward(a_, layout_));
  }

 private:
  void make_logits(const Tile& tokens) {
    for_columns([&](std::int64_t first, std::int64_t count) {
      Matmul p;
      p.m = tokens.size(), p.n = count, p.k = a_.width;
      p.a = {normalized(tokens), false};
      p.b = {a_.table.rows_from(first), true};
      p.d = View{layout_.logits, DType::fp32, layout_.logits_stride}.columns_from(first);
      kernels_.matmuls_.require(cuda_stream_, p);
    });
  }

  void softmax(const Tile& tokens) {
    CrossEntropy c;
    c.rows = tokens.size(), c.vocab = a_.vocab, c.stride = layout_.logits_stride;
    c.logits = layout_.logits, c.targets = a_.targets + tokens.begin;
    c.token_loss = layout_.token_loss + tokens.begin;
    c.scalars = a_.training() ? a_.scalars : nullptr;
    cross_entropy(cuda_stream_, c, a_.input.dtype);
  }

  /// Computes d normalised = d logits table. Over a cut vocabulary the sum stays in fp32 until it is complete. It uses
  /// the half of the logits' rows that their narrower gradient left free.
  void make_input_gradient(const Tile& tokens) {
    Matmul p;
    p.m = tokens.size(), p.n = a_.width;
    const View out = View{layout_.normalized_gradient, a_.input.dtype, a_.width}.rows_from(tokens.begin);
    const bool room = cut_.even < a_.vocab && a_.width <= layout_.logits_stride / 2;
    if (!room) {
      p.k = a_.vocab, p.a = {logit_gradient(), false}, p.b = {a_.table, false}, p.d = out;
      kernels_.matmuls_.require(cuda_stream_, p);
      return;
    }
    const View sum{layout_.logits + layout_.logits_stride / 2, DType::fp32, layout_.logits_stride};
    for_columns([&](std::int64_t first, std::int64_t count) {
      p.k = count;
      p.a = {logit_gradient().columns_from(first), false}, p.b = {a_.table.rows_from(first), false};
      p.c = first == 0 ? ConstView{} : sum, p.d = sum;
      kernels_.matmuls_.require(cuda_stream_, p);
    });
    finish_input_gradient(cuda_stream_, {sum, 0, tokens.size(), a_.width}, {}, out);
  }

  /// Computes d table = (d logits)^T normalised: summed over chunks in fp32, in the gradient itself where it is fp32.
  void make_table_gradient(const Tile& tokens, bool first_chunk, bool last_chunk) {
    const bool separate = layout_.table_sum != nullptr;
    const View sum = separate ? View{layout_.table_sum, DType::fp32, a_.width} : a_.table_gradient.view;
    const bool adds = !first_chunk || (!separate && a_.table_gradient.adds);
    for_columns([&](std::int64_t first, std::int64_t count) {
      Matmul p;
      p.m = count, p.n = a_.width, p.k = tokens.size();
      p.a = {logit_gradient().columns_from(first), true};
      p.b = {normalized(tokens), false};
      kernels_.store_gradient_matmul(cuda_stream_, p, {sum.rows_from(first), adds});
    });
    if (separate && last_chunk) {
      finish_gradient(cuda_stream_, {sum, 0, a_.vocab, a_.width}, a_.table_gradient);
    }
  }

  template <class Body>
  void for_columns(Body body) const {
    body(0, cut_.even);
    if (cut_.even < a_.vocab) body(cut_.even, a_.vocab - cut_.even);
  }

  ConstView normalized(const Tile& tokens) const {
    return ConstView{layout_.normalized, a_.input.dtype, a_.width}.rows_from(tokens.begin);
  }
  /// Returns [chunk, vocab] in the compute type, rows as far apart as the logits'.
  ConstView logit_gradient() const {
    return {layout_.logits, a_.input.dtype, layout_.logits_stride * 4 / size_of(a_.input.dtype)};
  }

  CudaKernels& kernels_;
  Stream& stream_;
  cudaStream_t cuda_stream_;
  const HeadArguments& a_;
  VocabularyCut cut_;
  ScratchLayout scratch_;
  CudaHeadLayout layout_;
};

std::int64_t CudaKernels::head_scratch_capacity(const HeadArguments& a) const {
  ScratchLayout scratch;
  CudaHeadLayout(scratch, a.tokens, a.width, a.vocab, a.input.dtype, a.table_gradient.view.dtype, a.training(),
                 limits_.head_logits);
  return scratch.used();
}

void CudaKernels::head(Stream& stream, const HeadArguments& a) { CudaHead(*this, stream, a).run(); }

}  // namespace tessera
