// The parameters of a model: the rows of its family, expanded over blocks, in forward order of first use.

#include <cmath>

#include "tessera/base/math.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

namespace {

constexpr double kDeviation = 0.02;  ///< of GPT-2's weights (Radford et al. 2019) and Hugging Face's initializer_range

ParameterTensor tensor_of(const TensorRow& row, int block, const Architecture& a) {
  ParameterTensor t;
  t.role = row.role, t.block = block;
  t.name = fmt::format(fmt::runtime(row.name), block);
  const std::int64_t rows = size_of(row.rows, a), columns = size_of(row.columns, a);
  t.shape = {rows};
  if (row.columns != Length::none) t.shape.push_back(columns);
  t.elements = checked_multiply(rows, columns);
  const bool is_residual = row.initialization == Initialization::residual;
  t.initialization = is_residual ? Initialization::normal : row.initialization;
  if (t.initialization == Initialization::normal) t.standard_deviation = kDeviation;
  if (is_residual) t.standard_deviation /= std::sqrt(2.0 * static_cast<double>(a.layers));
  t.decays = t.shape.size() > 1;
  t.is_table = row.rows == Length::vocab;
  return t;
}

}  // namespace

IndexedVector<TensorId, ParameterTensor> parameter_tensors(const Architecture& architecture) {
  validate(architecture);
  IndexedVector<TensorId, ParameterTensor> tensors;
  const auto add = [&](PartKind part, int block) {
    for (const TensorRow& row : rules_of(architecture.family).tensors) {
      if (part_of(row.role) != part || !row.is_in(architecture)) continue;
      ParameterTensor tensor = tensor_of(row, block, architecture);
      if (architecture.has_one_qkv() && followed_by(row.role) != row.role) {
        tensor.follows = tensors.end_id() - 1;
        while (tensors[tensor.follows].role != followed_by(row.role)) --tensor.follows;
      }
      tensors.push_back(std::move(tensor));
    }
  };
  add(PartKind::embedding, -1);
  for (int block = 0; block < architecture.layers; ++block) {
    add(PartKind::attention, block);
    add(PartKind::mlp, block);
  }
  add(PartKind::head, -1);
  return tensors;
}

std::int64_t ParameterTensor::padded_elements() const {
  return is_table ? checked_multiply(round_up(shape.at(0), kTableRows), elements / shape.at(0)) : elements;
}

std::int64_t ModelParts::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterTensor& tensor : tensors) count = checked_add(count, tensor.elements);
  return count;
}

std::int64_t ModelParts::training_flops() const {
  std::int64_t flops = 0;
  for (const Part& part : parts) flops += part.backward.flops + (part.kind == PartKind::head ? 0 : part.forward.flops);
  return flops;
}

}  // namespace tessera
