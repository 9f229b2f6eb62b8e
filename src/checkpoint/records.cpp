#include "tessera/checkpoint/records.hpp"

#include <algorithm>

namespace tessera {

std::span<const StateKind> kinds_of(StateContent content) {
  const std::span<const StateKind> all = kAllStates;
  return content == StateContent::full ? all : all.first(1);
}

std::vector<TensorRecord> tensor_records(const std::vector<ParameterTensor>& tensors, OptimizerName optimizer,
                                         DType moments) {
  std::vector<TensorRecord> records;
  records.reserve(tensors.size());
  for (const ParameterTensor& tensor : tensors) {
    if (!tensor.trains) continue;
    const OptimizerRules& rules = rules_of(optimizer);
    const auto& keeps = tensor.is_block_matrix() ? rules.keeps : rules_of(rules.others).keeps;
    TensorRecord& record = records.emplace_back(tensor.name, tensor.shape, tensor.elements);
    record.states.fill(false);
    record.moments = moments;
    for (const StateKind kind : keeps) record.states[static_cast<std::size_t>(kind)] = true;
  }
  return records;
}

DType dtype_of(StateKind kind, const std::vector<TensorRecord>& tensors) {
  return tensors.empty() ? DType::fp32 : dtype_of(kind, tensors.front().moments);
}

std::int64_t elements_of(const std::vector<ElementRun>& runs, StateKind kind,
                         const std::vector<TensorRecord>& tensors) {
  std::int64_t sum = 0;
  for (const ElementRun& run : runs) sum += tensors[static_cast<std::size_t>(run.tensor)].keeps(kind) ? run.count : 0;
  return sum;
}

std::int64_t bytes_of(const std::vector<ElementRun>& runs, StateKind kind, const std::vector<TensorRecord>& tensors) {
  return elements_of(runs, kind, tensors) * size_of(dtype_of(kind, tensors));
}

std::vector<std::vector<PlacedRun>> places_by_tensor(const std::vector<TensorRecord>& tensors,
                                                     const std::vector<FileRecord>& files, StateKind kind) {
  std::vector<std::vector<PlacedRun>> places(tensors.size());
  for (std::size_t file = 0; file < files.size(); ++file) {
    std::int64_t offset = 0;
    for (const ElementRun& run : files[file].runs) {
      const auto tensor = static_cast<std::size_t>(run.tensor);
      if (!tensors[tensor].keeps(kind)) continue;
      places[tensor].push_back({run.first, run.count, file, offset});
      offset += run.count;
    }
  }
  return places;
}

std::string Manifest::option(std::string_view name) const {
  const auto found = std::ranges::find(options, name, &NamedTexts::value_type::first);
  return found == options.end() ? std::string() : found->second;
}

std::int64_t FileRecord::elements() const {
  std::int64_t sum = 0;
  for (const ElementRun& run : runs) sum += run.count;
  return sum;
}

}  // namespace tessera
