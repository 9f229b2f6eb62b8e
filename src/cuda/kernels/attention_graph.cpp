#include "cuda/kernels/attention_graph.hpp"

#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

using cudnn::Attribute;
using cudnn::Data;
using cudnn::Kind;
using cudnn::Pointwise;
using cudnn::Reduction;
using cudnn::Type;

using Four = std::array<std::int64_t, 4>;

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

/// A tensor by its index among the graph's parts, and its form. Dimensions: batch, heads, rows, columns.
struct Tensor {
  std::size_t part = 0;
  Four sizes{}, strides{};
  Data type = Data::fp32;
};

Four packed(const Four& sizes) { return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}; }

class Builder {
 public:
  explicit Builder(const Cudnn& library) : library_(library) {}

  Tensor memory(AttentionTensor name, const Four& sizes, const Four& strides, Data type) {
    return tensor(static_cast<std::int64_t>(name), sizes, strides, type, false, false);
  }
  Tensor number(AttentionTensor name) {
    return tensor(static_cast<std::int64_t>(name), {1, 1, 1, 1}, {1, 1, 1, 1}, Data::fp32, false, true);
  }
  /// Adds a result that is never in memory.
  Tensor passing(const Four& sizes, const Four& strides, Data type = Data::fp32) {
    return tensor(next_id_++, sizes, strides, type, true, false);
  }
  Tensor passing(const Four& sizes, Data type = Data::fp32) { return passing(sizes, packed(sizes), type); }

  void matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
    CudnnDescriptor how(library_, Kind::matmul);
    how.set(Attribute::matmul_precision, Type::data_type, Data::fp32);
    how.finalize();
    CudnnDescriptor operation(library_, Kind::matmul_operation);
    link(operation, Attribute::matmul_operation_a, a);
    link(operation, Attribute::matmul_operation_b, b);
    link(operation, Attribute::matmul_operation_c, c);
    operation.set(Attribute::matmul_operation_descriptor, how);
    keep(std::move(how), std::move(operation));
  }
  /// Adds y = x (mode) b
  Tensor combine(Pointwise mode, const Tensor& x, const Tensor& b) {
    const Tensor y = passing(x.sizes, x.strides);
    combine(mode, x, b, y);
    return y;
  }
  void combine(Pointwise mode, const Tensor& x, const Tensor& b, const Tensor& y) {
    pointwise(mode, x, &b, nullptr, y);
  }
  Tensor apply(Pointwise mode, const Tensor& x) {
    const Tensor y = passing(x.sizes, x.strides);
    apply(mode, x, y);
    return y;
  }
  void apply(Pointwise mode, const Tensor& x, const Tensor& y) { pointwise(mode, x, nullptr, nullptr, y); }
  void reduce(Reduction how_to, const Tensor& x, const Tensor& y) {
    CudnnDescriptor how(library_, Kind::reduction);
    how.set(Attribute::reduction_precision, Type::data_type, Data::fp32);
    how.set(Attribute::reduction_operator, Type::reduction_operator, how_to);
    how.finalize();
    CudnnDescriptor operation(library_, Kind::reduction_operation);
    link(operation, Attribute::reduction_operation_x, x);
    link(operation, Attribute::reduction_operation_y, y);
    operation.set(Attribute::reduction_operation_descriptor, how);
    keep(std::move(how), std::move(operation));
  }
  /// Swaps the last two dimensions; the result has another type, too.
  Tensor transposed(const Tensor& x, Data type) {
    const Tensor y = passing({x.sizes[0], x.sizes[1], x.sizes[3], x.sizes[2]},
                             {x.strides[0], x.strides[1], x.strides[3], x.strides[2]}, type);
    CudnnDescriptor operation(library_, Kind::reshape_operation);
    link(operation, Attribute::reshape_x, x);
    link(operation, Attribute::reshape_y, y);
    operation.finalize();
    operations_.push_back(operation.get());
    parts_.push_back(std::move(operation));
    return y;
  }
  /// Adds scores where the column is not after the row, minus infinity elsewhere
  Tensor causal(const Tensor& scores, const Tensor& minus_infinity) {
    const Tensor row = passing(scores.sizes, Data::int32), column = passing(scores.sizes, Data::int32),
                 visible = passing(scores.sizes, Data::boolean), y = passing(scores.sizes);
    pointwise(Pointwise::index, scores, nullptr, nullptr, row, Data::fp32, 2);
    pointwise(Pointwise::index, scores, nullptr, nullptr, column, Data::fp32, 3);
    pointwise(Pointwise::greater_or_equal, row, &column, nullptr, visible, Data::boolean);
    pointwise(Pointwise::select, scores, &minus_infinity, &visible, y);
    return y;
  }

  AttentionGraph finish(const CudnnTarget& target) {
    CudnnDescriptor graph(library_, Kind::graph);
    if (target.handle != nullptr) graph.set(Attribute::graph_handle, Type::handle, target.handle);
    graph.set(Attribute::graph_operations, Type::descriptor, operations_);
    graph.finalize();
    return {std::move(parts_), std::move(graph)};
  }

 private:
  Tensor tensor(std::int64_t id, const Four& sizes, const Four& strides, Data type, bool is_virtual, bool by_value) {
    CudnnDescriptor made(library_, Kind::tensor);
    made.set(Attribute::tensor_type, Type::data_type, type);
    made.set(Attribute::tensor_dimensions, Type::int64, std::vector<std::int64_t>(sizes.begin(), sizes.end()));
    made.set(Attribute::tensor_strides, Type::int64, std::vector<std::int64_t>(strides.begin(), strides.end()));
    made.set(Attribute::tensor_id, Type::int64, id);
    made.set(Attribute::tensor_alignment, Type::int64, std::int64_t{16});
    made.set(Attribute::tensor_is_virtual, Type::boolean, is_virtual);
    if (by_value) made.set(Attribute::tensor_is_by_value, Type::boolean, by_value);
    made.finalize();
    parts_.push_back(std::move(made));
    return {parts_.size() - 1, sizes, strides, type};
  }

  void pointwise(Pointwise mode, const Tensor& x, const Tensor* b, const Tensor* condition, const Tensor& y,
                 Data precision = Data::fp32, std::int64_t axis = -1) {
    CudnnDescriptor how(library_, Kind::pointwise);
    how.set(Attribute::pointwise_mode, Type::pointwise_mode, mode);
    how.set(Attribute::pointwise_precision, Type::data_type, precision);
    if (axis >= 0) how.set(Attribute::pointwise_axis, Type::int64, axis);
    how.finalize();
    CudnnDescriptor operation(library_, Kind::pointwise_operation);
    operation.set(Attribute::pointwise_operation_descriptor, how);
    link(operation, Attribute::pointwise_operation_x, x);
    if (b != nullptr) link(operation, Attribute::pointwise_operation_b, *b);
    if (condition != nullptr) link(operation, Attribute::pointwise_operation_condition, *condition);
    link(operation, Attribute::pointwise_operation_y, y);
    keep(std::move(how), std::move(operation));
  }

  void link(CudnnDescriptor& operation, Attribute name, const Tensor& t) { operation.set(name, parts_[t.part]); }

  void keep(CudnnDescriptor how, CudnnDescriptor operation) {
    operation.finalize();
    operations_.push_back(operation.get());
    parts_.push_back(std::move(how));
    parts_.push_back(std::move(operation));
  }

  const Cudnn& library_;
  std::vector<CudnnDescriptor> parts_;
  std::vector<void*> operations_;
  std::int64_t next_id_ = 100;
};

/// The tensors of a problem that lie in rows of tokens.
class Rows {
 public:
  Rows(Builder& builder, const AttentionProblem& p) : builder_(builder), p_(p), type_(data_of(p.dtype)) {}

  Tensor of(AttentionTensor name, std::int64_t heads, std::int64_t stride) {
    const AttentionShape& s = p_.shape;
    return builder_.memory(name, {s.batch, heads, s.sequence, s.head_width},
                           {s.sequence * stride, s.head_width, stride, 1}, type_);
  }
  /// Describes the same memory, seen with a head's columns as rows, as keys and values are read.
  Tensor transposed(AttentionTensor name, std::int64_t heads, std::int64_t stride) {
    const AttentionShape& s = p_.shape;
    return builder_.memory(name, {s.batch, heads, s.head_width, s.sequence},
                           {s.sequence * stride, s.head_width, 1, stride}, type_);
  }

 private:
  Builder& builder_;
  const AttentionProblem& p_;
  Data type_;
};

Four sizes_of_scores(const AttentionShape& s) { return {s.batch, s.heads, s.sequence, s.sequence}; }
Four sizes_of_rows(const AttentionShape& s) { return {s.batch, s.heads, s.sequence, 1}; }

}  // namespace

AttentionGraph attention_forward_graph(const Cudnn& library, const CudnnTarget& target, const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  Builder b(library);
  Rows rows(b, p);
  const Tensor query = rows.of(AttentionTensor::query, s.heads, p.query);
  const Tensor key = rows.transposed(AttentionTensor::key, s.kv_heads, p.key);
  const Tensor value = rows.of(AttentionTensor::value, s.kv_heads, p.value);
  const Tensor output = rows.of(AttentionTensor::output, s.heads, p.output);
  const Tensor log_sum_exp =
      b.memory(AttentionTensor::log_sum_exp, sizes_of_rows(s), packed(sizes_of_rows(s)), Data::fp32);

  Tensor scores = b.passing(sizes_of_scores(s));
  b.matmul(query, key, scores);
  scores = b.combine(Pointwise::multiply, scores, b.number(AttentionTensor::scale));
  scores = b.causal(scores, b.number(AttentionTensor::minus_infinity));
  const Tensor maximum = b.passing(sizes_of_rows(s)), sum = b.passing(sizes_of_rows(s));
  b.reduce(Reduction::maximum, scores, maximum);
  const Tensor exponential = b.apply(Pointwise::exp, b.combine(Pointwise::subtract, scores, maximum));
  b.reduce(Reduction::add, exponential, sum);
  b.combine(Pointwise::add, maximum, b.apply(Pointwise::log, sum), log_sum_exp);
  const Tensor probability = b.passing(sizes_of_scores(s), data_of(p.dtype));
  b.combine(Pointwise::divide, exponential, sum, probability);
  b.matmul(probability, value, output);
  return b.finish(target);
}

AttentionGraph attention_backward_graph(const Cudnn& library, const CudnnTarget& target, const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  const Data type = data_of(p.dtype);
  const Four row = sizes_of_rows(s), whole = {s.batch, s.heads, s.sequence, s.head_width};
  Builder b(library);
  Rows rows(b, p);
  const Tensor query = rows.of(AttentionTensor::query, s.heads, p.query);
  const Tensor key = rows.transposed(AttentionTensor::key, s.kv_heads, p.key);
  const Tensor value = rows.transposed(AttentionTensor::value, s.kv_heads, p.value);
  const Tensor output = rows.of(AttentionTensor::output, s.heads, p.output);
  const Tensor upstream = rows.of(AttentionTensor::output_gradient, s.heads, p.output_gradient);
  const Tensor log_sum_exp = b.memory(AttentionTensor::log_sum_exp, row, packed(row), Data::fp32);
  const Tensor scale = b.number(AttentionTensor::scale);

  // Makes gradients of shared heads for every query head, then adds them up.
  const auto head_gradient = [&](const Tensor& left, const Tensor& right, AttentionTensor name, std::int64_t stride) {
    const Tensor result = rows.of(name, s.kv_heads, stride);
    if (s.heads == s.kv_heads) return b.matmul(left, right, result);
    const Tensor each = b.passing(whole, type);
    b.matmul(left, right, each);
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
  b.matmul(query, key, scores);
  scores = b.combine(Pointwise::multiply, scores, scale);
  scores = b.combine(Pointwise::subtract, scores, log_sum_exp);
  scores = b.causal(scores, b.number(AttentionTensor::minus_infinity));
  const Tensor probability = b.apply(Pointwise::exp, scores);
  head_gradient(b.transposed(probability, type), upstream, AttentionTensor::value_gradient, p.value_gradient);

  Tensor gradient = b.passing(sizes_of_scores(s));
  b.matmul(upstream, value, gradient);
  gradient = b.combine(Pointwise::subtract, gradient, delta);
  gradient = b.combine(Pointwise::multiply, gradient, probability);
  gradient = b.combine(Pointwise::multiply, gradient, scale);
  head_gradient(b.transposed(gradient, type), query, AttentionTensor::key_gradient, p.key_gradient);

  const Tensor query_gradient = rows.of(AttentionTensor::query_gradient, s.heads, p.query_gradient);
  if (p.deterministic) {
    b.matmul(gradient, b.transposed(key, type), query_gradient);
  } else {
    const Tensor sum = b.memory(AttentionTensor::query_gradient_sum, whole, packed(whole), Data::fp32);
    b.matmul(gradient, b.transposed(key, type), sum);
    b.apply(Pointwise::identity, sum, query_gradient);
  }
  return b.finish(target);
}

}  // namespace tessera
