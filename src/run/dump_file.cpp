#include "tessera/run/dump_file.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

using Elements = boost::icl::interval<std::int64_t>;

DumpFile::DumpFile(const std::filesystem::path& path, const std::vector<ParameterTensor>& tensors) : output_(path) {
  for (const ParameterTensor& tensor : tensors) names_.push_back(tensor.name);
  file_ = Hdf5File::create(output_.beside(), Hdf5File::Create::truncate);
  for (Table& table : tables_) {
    const Hdf5Group group = hdf5_create_group(file_.id(), table.name);
    for (const ParameterTensor& tensor : tensors)
      table.tensors.push_back({Hdf5Array<float>::create(group.id(), tensor.name, tensor.shape), {}});
  }
}

void DumpFile::write(DumpTable table, TensorId tensor, std::int64_t first, std::span<const float> values) {
  Tensor& target = tables_.at(static_cast<std::size_t>(table)).tensors.at(tensor);
  const auto count = static_cast<std::int64_t>(values.size());
  TESSERA_ASSERT(first >= 0 && first <= target.array.elements() && count <= target.array.elements() - first,
                 "{} has {} elements: no {} from element {} on", names_[tensor], target.array.elements(), count, first);
  const auto run = Elements::right_open(first, first + count);
  TESSERA_ASSERT(count == 0 || !boost::icl::intersects(target.written, run),
                 "elements {} to {} of {} are written twice", first, first + count, names_[tensor]);
  target.written.add(run);
  target.array.write(first, values);
}

void DumpFile::finish(std::int64_t step, double loss, double grad_norm) {
  for (const Table& table : tables_) {
    for (const TensorId i : names_.ids()) {
      const Tensor& tensor = table.tensors[i];
      TESSERA_ASSERT(boost::icl::contains(tensor.written, Elements::right_open(0, tensor.array.elements())),
                     "{} of {} were not all written", table.name, names_[i]);
    }
  }
  hdf5_write_attribute(file_.id(), "step", step);
  hdf5_write_attribute(file_.id(), "loss", loss);
  hdf5_write_attribute(file_.id(), "grad_norm", grad_norm);
  for (Table& table : tables_) table.tensors.clear();
  file_.close();
  output_.finish();
}

}  // namespace tessera
