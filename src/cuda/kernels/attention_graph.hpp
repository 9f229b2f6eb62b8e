#pragma once
// Attention as a graph of cuDNN's operations. The library recognises the graph and runs one fused kernel for it; only
// the named tensors are ever in memory. The recognised patterns are narrow: the order of operations, the types between
// them and the transposed views below are those of its own frontend.

#include <compare>

#include "cuda/kernels/cudnn.hpp"
#include "tessera/kernels/arguments/attention.hpp"

namespace tessera {

/// The tensors of a graph that get an address from a call; the first three are numbers (host addresses).
enum class AttentionTensor : std::int64_t {
  scale = 1,
  minus_infinity,
  one,
  query,
  key,
  value,
  output,
  log_sum_exp,
  output_gradient,
  query_gradient,
  key_gradient,
  value_gradient,
  delta,               ///< scratch, fp32 [batch, heads, sequence]
  query_gradient_sum,  ///< scratch, fp32 [batch, heads, sequence, head_width]
  // Of documents, int32: their lengths [documents], as queries and as keys; where they begin [documents + 1].
  query_lengths,
  key_lengths,
  query_offsets,
  key_offsets,
  value_offsets,
  output_offsets,
  log_sum_exp_offsets,
};

/// Shape, type and strides (elements from row to row) of attention. With documents (AttentionShape::documents) each is
/// a sequence of the graph, at a place that its offsets say; gradients have the strides of what they are of.
struct AttentionProblem {
  AttentionShape shape;
  DType dtype = DType::bf16;
  std::int64_t query = 0, key = 0, value = 0, output = 0;                                      ///< strides
  std::int64_t output_gradient = 0, query_gradient = 0, key_gradient = 0, value_gradient = 0;  ///< of backward alone
  /// Of backward alone: each query gradient is one matmul over the gradients of all its scores, which the library keeps
  /// in its workspace. Otherwise blocks of keys add to an fp32 sum in whatever order they finish.
  bool deterministic = false;

  static AttentionProblem of(const AttentionForward& a);
  static AttentionProblem of(const AttentionBackward& a, bool deterministic);
  auto operator<=>(const AttentionProblem&) const = default;
};

/// A graph and its parts.
struct AttentionGraph {
  std::vector<CudnnDescriptor> parts;
  CudnnDescriptor graph;
};

/// `target`: the graph gets its handle. CudnnRefusal if the library does not accept a part of it.
AttentionGraph attention_forward_graph(const Cudnn& library, const CudnnTarget& target, const AttentionProblem& p);
AttentionGraph attention_backward_graph(const Cudnn& library, const CudnnTarget& target, const AttentionProblem& p);

}  // namespace tessera
