#include "tessera/checkpoint/records.hpp"

namespace tessera {

std::string_view name_of(StateKind kind) {
  static constexpr std::array<std::string_view, kStateKinds> names{"parameter", "first_moment", "second_moment"};
  return names[static_cast<std::size_t>(kind)];
}

std::span<const StateKind> kinds_of(StateContent content) {
  return std::span(kAllStateKinds).first(content == StateContent::full ? kStateKinds : 1);
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
