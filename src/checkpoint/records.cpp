#include "tessera/checkpoint/records.hpp"

namespace tessera {

std::span<const StateKind> kinds_of(StateContent content) {
  const std::span<const StateKind> all = rules_of(OptimizerName::adamw).keeps;
  return content == StateContent::full ? all : all.first(1);
}

std::vector<TensorRecord> tensor_records(const std::vector<ParameterTensor>& tensors) {
  std::vector<TensorRecord> records;
  records.reserve(tensors.size());
  for (const ParameterTensor& tensor : tensors) records.push_back({tensor.name, tensor.shape, tensor.elements});
  return records;
}

std::int64_t FileRecord::elements() const {
  std::int64_t sum = 0;
  for (const ElementRun& run : runs) sum += run.count;
  return sum;
}

}  // namespace tessera
