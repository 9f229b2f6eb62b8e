#pragma once
// A graph of cuDNN's operations for attention, while it is made.

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "cuda/kernels/attention_graph.hpp"

namespace tessera::cudnn {

using Four = std::array<std::int64_t, 4>;

/// A tensor by its index among the graph's parts, and its form. Dimensions: batch, heads, rows, columns.
struct Tensor {
  std::size_t part = 0;
  Four sizes{}, strides{};
  Data type = Data::fp32;
  std::optional<std::size_t> offsets = {};  ///< another part: where each document begins
};

/// What the rows of a matmul's result belong to. Scores have a row for each query, and a column for each key.
enum class Rows { scores, of_queries, of_keys };

inline Four packed(const Four& sizes) { return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}; }

class GraphBuilder {
 public:
  /// `documents`: the sequences of the graph, if they are documents; else 0.
  GraphBuilder(const Cudnn& library, std::int64_t documents) : library_(library), documents_(documents) {
    if (documents == 0) return;
    query_lengths_ = integers(AttentionTensor::query_lengths, documents);
    key_lengths_ = integers(AttentionTensor::key_lengths, documents);
  }

  Tensor memory(AttentionTensor name, const Four& sizes, const Four& strides, Data type) {
    return tensor(static_cast<std::int64_t>(name), sizes, strides, type, false, false);
  }
  /// Adds a tensor whose documents begin where `offsets` says.
  Tensor memory(AttentionTensor name, const Four& sizes, const Four& strides, Data type, AttentionTensor offsets) {
    if (documents_ == 0) return memory(name, sizes, strides, type);
    const auto known = offsets_.find(offsets);
    const std::size_t part = known != offsets_.end() ? known->second : integers(offsets, documents_ + 1).part;
    offsets_.emplace(offsets, part);
    return tensor(static_cast<std::int64_t>(name), sizes, strides, type, false, false, part);
  }
  Tensor number(AttentionTensor name) {
    return tensor(static_cast<std::int64_t>(name), {1, 1, 1, 1}, {1, 1, 1, 1}, Data::fp32, false, true);
  }
  /// Adds a result that is never in memory.
  Tensor passing(const Four& sizes, const Four& strides, Data type = Data::fp32) {
    return tensor(next_id_++, sizes, strides, type, true, false);
  }
  Tensor passing(const Four& sizes, Data type = Data::fp32) { return passing(sizes, packed(sizes), type); }

  /// Adds c = a b. In documents, lengths limit its rows, and its columns or depth.
  void matmul(const Tensor& a, const Tensor& b, const Tensor& c, Rows rows) {
    CudnnDescriptor how(library_, Kind::matmul);
    how.set(Attribute::matmul_precision, Type::data_type, Data::fp32);
    how.finalize();
    CudnnDescriptor operation(library_, Kind::matmul_operation);
    link(operation, Attribute::matmul_operation_a, a);
    link(operation, Attribute::matmul_operation_b, b);
    link(operation, Attribute::matmul_operation_c, c);
    operation.set(Attribute::matmul_operation_descriptor, how);
    if (documents_ > 0) {
      const bool by_key = rows == Rows::of_keys;
      link(operation, Attribute::matmul_operation_rows, by_key ? key_lengths_ : query_lengths_);
      link(operation, rows == Rows::scores ? Attribute::matmul_operation_columns : Attribute::matmul_operation_depth,
           by_key ? query_lengths_ : key_lengths_);
    }
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
    const Tensor y = tensor(next_id_++, {x.sizes[0], x.sizes[1], x.sizes[3], x.sizes[2]},
                            {x.strides[0], x.strides[1], x.strides[3], x.strides[2]}, type, true, false, x.offsets);
    CudnnDescriptor operation(library_, Kind::reshape_operation);
    link(operation, Attribute::reshape_x, x);
    link(operation, Attribute::reshape_y, y);
    operation.finalize();
    operations_.push_back(operation.get());
    parts_.push_back(std::move(operation));
    return y;
  }
  /// Adds scores where row and column are in the document, minus infinity elsewhere. Without documents they all are.
  Tensor within_lengths(const Tensor& scores, const Tensor& minus_infinity) {
    if (documents_ == 0) return scores;
    const Tensor row = passing(scores.sizes, Data::int32), column = passing(scores.sizes, Data::int32),
                 has_row = passing(scores.sizes, Data::boolean), has_column = passing(scores.sizes, Data::boolean),
                 has_both = passing(scores.sizes, Data::boolean), y = passing(scores.sizes);
    pointwise(Pointwise::index, scores, nullptr, nullptr, row, Data::int32, 2);
    pointwise(Pointwise::index, scores, nullptr, nullptr, column, Data::int32, 3);
    pointwise(Pointwise::less, row, &query_lengths_, nullptr, has_row, Data::boolean);
    pointwise(Pointwise::less, column, &key_lengths_, nullptr, has_column, Data::boolean);
    pointwise(Pointwise::both, has_row, &has_column, nullptr, has_both, Data::boolean);
    pointwise(Pointwise::select, scores, &minus_infinity, &has_both, y);
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
  /// Adds numbers of documents, in memory.
  Tensor integers(AttentionTensor name, std::int64_t count) {
    return memory(name, {count, 1, 1, 1}, {1, 1, 1, 1}, Data::int32);
  }

  Tensor tensor(std::int64_t id, const Four& sizes, const Four& strides, Data type, bool is_virtual, bool by_value,
                std::optional<std::size_t> offsets = {}) {
    CudnnDescriptor made(library_, Kind::tensor);
    made.set(Attribute::tensor_type, Type::data_type, type);
    made.set(Attribute::tensor_dimensions, Type::int64, std::vector<std::int64_t>(sizes.begin(), sizes.end()));
    made.set(Attribute::tensor_strides, Type::int64, std::vector<std::int64_t>(strides.begin(), strides.end()));
    made.set(Attribute::tensor_id, Type::int64, id);
    made.set(Attribute::tensor_alignment, Type::int64, std::int64_t{16});
    made.set(Attribute::tensor_is_virtual, Type::boolean, is_virtual);
    if (by_value) made.set(Attribute::tensor_is_by_value, Type::boolean, by_value);
    if (offsets) made.set(Attribute::tensor_ragged_offset, parts_[*offsets]);
    made.finalize();
    parts_.push_back(std::move(made));
    return {parts_.size() - 1, sizes, strides, type, offsets};
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
  std::int64_t documents_;
  Tensor query_lengths_, key_lengths_;
  std::map<AttentionTensor, std::size_t> offsets_;
  std::vector<CudnnDescriptor> parts_;
  std::vector<void*> operations_;
  std::int64_t next_id_ = 100;
};

}  // namespace tessera::cudnn
