#include "cuda/kernels/attention_graph.hpp"

#include "cuda/kernels/graph_builder.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

using cudnn::Data;
using cudnn::Four;
using cudnn::GraphBuilder;
using cudnn::packed;
using cudnn::Pointwise;
using cudnn::Reduction;
using cudnn::Rows;
using cudnn::Tensor;

Data data_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return Data::bf16;
    case DType::fp16:
      return Data::fp16;
    default:
      throw CudnnRefusal(fmt::format("attention of {} is not supported, only of bf16 and fp16", name_of(dtype)));
  }
}

/// Returns the shape with documents as its sequences, if it has any.
AttentionShape shape_of_graph(AttentionShape shape) {
  if (shape.documents > 0) shape.batch = shape.documents;
  return shape;
}

/// Returns the offsets of a tensor that lies in rows of tokens.
AttentionTensor offsets_of(AttentionTensor name) {
  switch (name) {
    case AttentionTensor::query:
    case AttentionTensor::query_gradient:
      return AttentionTensor::query_offsets;
    case AttentionTensor::key:
    case AttentionTensor::key_gradient:
      return AttentionTensor::key_offsets;
    case AttentionTensor::value:
    case AttentionTensor::value_gradient:
      return AttentionTensor::value_offsets;
    default:
      return AttentionTensor::output_offsets;
  }
}

/// The tensors of a problem in memory, other than scratch.
class TokenRows {
 public:
  TokenRows(GraphBuilder& builder, const AttentionShape& shape, DType dtype)
      : builder_(builder), shape_(shape), type_(data_of(dtype)) {}

  Tensor of(AttentionTensor name, std::int64_t heads, std::int64_t stride) {
    return builder_.memory(name, {shape_.batch, heads, shape_.sequence, shape_.head_width},
                           {shape_.sequence * stride, shape_.head_width, stride, 1}, type_, offsets_of(name));
  }
  /// Describes the same memory, seen with a head's columns as rows, as keys and values are read.
  Tensor transposed(AttentionTensor name, std::int64_t heads, std::int64_t stride) {
    return builder_.memory(name, {shape_.batch, heads, shape_.head_width, shape_.sequence},
                           {shape_.sequence * stride, shape_.head_width, 1, stride}, type_, offsets_of(name));
  }
  /// Describes the log-sum-exp of all rows, of documents with a token's heads side by side.
  Tensor log_sum_exp() {
    const Four sizes{shape_.batch, shape_.heads, shape_.sequence, 1};
    const Four of_documents{shape_.sequence * shape_.heads, 1, shape_.heads, 1};
    return builder_.memory(AttentionTensor::log_sum_exp, sizes, shape_.documents > 0 ? of_documents : packed(sizes),
                           Data::fp32, AttentionTensor::log_sum_exp_offsets);
  }

 private:
  GraphBuilder& builder_;
  const AttentionShape& shape_;
  Data type_;
};

Four sizes_of_scores(const AttentionShape& s) { return {s.batch, s.heads, s.sequence, s.sequence}; }
Four sizes_of_rows(const AttentionShape& s) { return {s.batch, s.heads, s.sequence, 1}; }

}  // namespace

AttentionGraph attention_forward_graph(const Cudnn& library, const CudnnTarget& target, const AttentionProblem& p) {
  const AttentionShape s = shape_of_graph(p.shape);
  GraphBuilder b(library, s.documents);
  TokenRows rows(b, s, p.dtype);
  const Tensor query = rows.of(AttentionTensor::query, s.heads, p.query);
  const Tensor key = rows.transposed(AttentionTensor::key, s.kv_heads, p.key);
  const Tensor value = rows.of(AttentionTensor::value, s.kv_heads, p.value);
  const Tensor output = rows.of(AttentionTensor::output, s.heads, p.output);
  const Tensor log_sum_exp = rows.log_sum_exp(), minus_infinity = b.number(AttentionTensor::minus_infinity);

  Tensor scores = b.passing(sizes_of_scores(s));
  b.matmul(query, key, scores, Rows::scores);
  scores = b.combine(Pointwise::multiply, scores, b.number(AttentionTensor::scale));
  scores = b.within_lengths(scores, minus_infinity);
  scores = b.causal(scores, minus_infinity);
  const Tensor maximum = b.passing(sizes_of_rows(s)), sum = b.passing(sizes_of_rows(s));
  b.reduce(Reduction::maximum, scores, maximum);
  const Tensor exponential = b.apply(Pointwise::exp, b.combine(Pointwise::subtract, scores, maximum));
  b.reduce(Reduction::add, exponential, sum);
  b.combine(Pointwise::add, maximum, b.apply(Pointwise::log, sum), log_sum_exp);
  const Tensor probability = b.passing(sizes_of_scores(s), data_of(p.dtype));
  b.combine(Pointwise::divide, exponential, sum, probability);
  b.matmul(probability, value, output, Rows::of_queries);
  return b.finish(target);
}

AttentionGraph attention_backward_graph(const Cudnn& library, const CudnnTarget& target, const AttentionProblem& p) {
  const AttentionShape s = shape_of_graph(p.shape);
  const Data type = data_of(p.dtype);
  const Four row = sizes_of_rows(s), whole = {s.batch, s.heads, s.sequence, s.head_width};
  GraphBuilder b(library, s.documents);
  TokenRows rows(b, s, p.dtype);
  const Tensor query = rows.of(AttentionTensor::query, s.heads, p.query);
  const Tensor key = rows.transposed(AttentionTensor::key, s.kv_heads, p.key);
  const Tensor value = rows.transposed(AttentionTensor::value, s.kv_heads, p.value);
  const Tensor output = rows.of(AttentionTensor::output, s.heads, p.output);
  const Tensor upstream = rows.of(AttentionTensor::output_gradient, s.heads, p.output_gradient);
  const Tensor log_sum_exp = rows.log_sum_exp(), scale = b.number(AttentionTensor::scale),
               minus_infinity = b.number(AttentionTensor::minus_infinity);

  // Makes gradients of shared heads for every query head, then adds them up.
  const auto head_gradient = [&](const Tensor& left, const Tensor& right, AttentionTensor name, std::int64_t stride) {
    const Tensor result = rows.of(name, s.kv_heads, stride);
    if (s.heads == s.kv_heads) return b.matmul(left, right, result, Rows::of_keys);
    const Tensor each = b.passing(whole, type);
    b.matmul(left, right, each, Rows::of_keys);
    b.reduce(Reduction::add, each, result);
  };

  // delta = dot(output, its gradient) of each row. Multiplying by one takes the place of dropout's factor.
  const Tensor dots = b.passing(row);
  const Tensor terms =
      b.passing(whole, {s.heads * s.sequence * s.head_width, s.sequence * s.head_width, s.heads * s.head_width, 1});
  b.combine(Pointwise::multiply, upstream, output, terms);
  b.reduce(Reduction::add, terms, dots);
  const Tensor delta = b.memory(AttentionTensor::delta, row, packed(row), Data::fp32);
  b.combine(Pointwise::multiply, dots, b.number(AttentionTensor::one), delta);

  Tensor scores = b.passing(sizes_of_scores(s));
  b.matmul(query, key, scores, Rows::scores);
  scores = b.combine(Pointwise::multiply, scores, scale);
  scores = b.within_lengths(scores, minus_infinity);
  scores = b.combine(Pointwise::subtract, scores, log_sum_exp);
  scores = b.causal(scores, minus_infinity);
  const Tensor probability = b.apply(Pointwise::exp, scores);
  head_gradient(b.transposed(probability, type), upstream, AttentionTensor::value_gradient, p.value_gradient);

  Tensor gradient = b.passing(sizes_of_scores(s));
  b.matmul(upstream, value, gradient, Rows::scores);
  gradient = b.combine(Pointwise::subtract, gradient, delta);
  gradient = b.combine(Pointwise::multiply, gradient, probability);
  gradient = b.combine(Pointwise::multiply, gradient, scale);
  head_gradient(b.transposed(gradient, type), query, AttentionTensor::key_gradient, p.key_gradient);

  const Tensor query_gradient = rows.of(AttentionTensor::query_gradient, s.heads, p.query_gradient);
  if (p.deterministic) {
    b.matmul(gradient, b.transposed(key, type), query_gradient, Rows::of_queries);
  } else {
    const Tensor sum = b.memory(AttentionTensor::query_gradient_sum, whole, packed(whole), Data::fp32);
    b.matmul(gradient, b.transposed(key, type), sum, Rows::of_queries);
    b.apply(Pointwise::identity, sum, query_gradient);
  }
  return b.finish(target);
}

}  // namespace tessera
