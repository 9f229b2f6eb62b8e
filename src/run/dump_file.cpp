#include "tessera/run/dump_file.hpp"

#include <iterator>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

void WrittenRuns::add(std::int64_t first, std::int64_t count) {
  if (count == 0) return;
  std::int64_t last = first + count;
  const auto next = runs_.lower_bound(first);
  const bool meets_next = next != runs_.end() && next->first < last;
  const bool meets_previous = next != runs_.begin() && std::prev(next)->second > first;
  TESSERA_ASSERT(!meets_next && !meets_previous, "elements {} to {} are written twice", first, last);
  if (next != runs_.end() && next->first == last) {
    last = next->second;
    runs_.erase(next);
  }
  const auto after = runs_.lower_bound(first);
  if (after != runs_.begin() && std::prev(after)->second == first) {
    std::prev(after)->second = last;
  } else {
    runs_.emplace(first, last);
  }
}

bool WrittenRuns::complete(std::int64_t elements) const {
  if (elements == 0) return runs_.empty();
  return runs_.size() == 1 && runs_.begin()->first == 0 && runs_.begin()->second == elements;
}

DumpFile::DumpFile(const std::filesystem::path& path, const std::vector<ParameterTensor>& tensors)
    : path_(path), beside_(path.string() + ".tmp") {
  for (const ParameterTensor& tensor : tensors) {
    names_.push_back(tensor.name);
    shapes_.push_back(tensor.shape);
  }
  file_ = Hdf5File::create(beside_, Hdf5File::Create::truncate);
  create(gradients_);
  create(weights_);
}

DumpFile::~DumpFile() {
  if (!file_.is_open()) return;
  std::error_code ignored;
  std::filesystem::remove(beside_, ignored);
}

void DumpFile::create(Table& table) {
  const Hdf5Group group = hdf5_create_group(file_.id(), table.name);
  for (const TensorId i : names_.ids()) {
    table.tensors.push_back({Hdf5Array<float>::create(group.id(), names_[i], shapes_[i]), {}});
  }
}

void DumpFile::write(Table& table, TensorId tensor, std::int64_t first, std::span<const float> values) {
  Tensor& target = table.tensors.at(tensor);
  const auto count = static_cast<std::int64_t>(values.size());
  TESSERA_ASSERT(first >= 0 && first <= target.array.elements() && count <= target.array.elements() - first,
                 "{} has {} elements: no {} from element {} on", names_[tensor], target.array.elements(), count, first);
  target.written.add(first, count);
  target.array.write(first, values);
}

void DumpFile::write_gradient(TensorId tensor, std::int64_t first, std::span<const float> values) {
  write(gradients_, tensor, first, values);
}

void DumpFile::write_weight(TensorId tensor, std::int64_t first, std::span<const float> values) {
  write(weights_, tensor, first, values);
}

void DumpFile::finish(std::int64_t step, double loss, double grad_norm) {
  for (Table* table : {&gradients_, &weights_}) {
    for (const TensorId i : names_.ids()) {
      const Tensor& tensor = table->tensors[i];
      TESSERA_ASSERT(tensor.written.complete(tensor.array.elements()), "{} of {} were not all written", table->name,
                     names_[i]);
    }
  }
  hdf5_write_attribute(file_.id(), "step", step);
  hdf5_write_attribute(file_.id(), "loss", loss);
  hdf5_write_attribute(file_.id(), "grad_norm", grad_norm);
  gradients_.tensors.clear();
  weights_.tensors.clear();
  file_.close();
  rename_durably(beside_, path_);
}

}  // namespace tessera
