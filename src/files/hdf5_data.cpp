#include "tessera/files/hdf5_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/files/array_boxes.hpp"
#include "tessera/files/hdf5_dataset.hpp"

namespace tessera {

namespace {

// Elements of a chunk, the most that a flush writes again: 8 kB of a series, 2 kB or one row of one with rows.
constexpr std::int64_t kSeriesChunk = 1024, kRowsChunk = 256;

template <class T>
struct ElementType;
template <>
struct ElementType<float> {
  static hid_t file() { return H5T_IEEE_F32LE; }
  static hid_t memory() { return H5T_NATIVE_FLOAT; }
  static constexpr H5T_class_t type_class = H5T_FLOAT;
};
template <>
struct ElementType<double> {
  static hid_t file() { return H5T_IEEE_F64LE; }
  static hid_t memory() { return H5T_NATIVE_DOUBLE; }
  static constexpr H5T_class_t type_class = H5T_FLOAT;
};
template <>
struct ElementType<std::int64_t> {
  static hid_t file() { return H5T_STD_I64LE; }
  static hid_t memory() { return H5T_NATIVE_INT64; }
  static constexpr H5T_class_t type_class = H5T_INTEGER;
};

/// Calls H5Dread or H5Dwrite as transfer(memory space, file space, offset into the caller's elements) for each box of
/// the run. `verb` is for messages.
void for_each_selection(const Hdf5Dataset& dataset, const std::vector<std::int64_t>& shape, std::int64_t first,
                        std::int64_t count, const char* verb,
                        const std::function<herr_t(hid_t, hid_t, std::int64_t)>& transfer) {
  hdf5_quiet();
  const std::string name = hdf5_name(dataset.id());
  const std::int64_t elements = elements_of_shape(shape);
  if (first < 0 || count < 0 || first > elements || count > elements - first) {
    throw IoError("{} has {} elements, so there are no {} from element {} on", name, elements, count, first);
  }
  if (count == 0) return;
  const std::string failed = fmt::format("cannot {} {}", verb, name);
  if (shape.empty()) return hdf5_check(transfer(H5S_ALL, H5S_ALL, 0), failed);
  const std::string what = fmt::format("cannot select elements of {}", name);
  const Hdf5Space space(hdf5_check_id(H5Dget_space(dataset.id()), what));
  std::int64_t offset = 0;
  for_each_box(shape, first, count, [&](const ArrayBox& box) {
    hdf5_check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, box.start.data(), nullptr, box.count.data(), nullptr),
               what);
    const Hdf5Space memory = simple_space({box.elements});
    hdf5_check(transfer(memory.id(), space.id(), offset), failed);
    offset += box.elements;
  });
}

}  // namespace

template <class T>
Hdf5Array<T> Hdf5Array<T>::create(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape) {
  hdf5_quiet();
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), creating(parent, name)));
  hdf5_check(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), creating(parent, name));
  Hdf5Array array;
  array.shape_ = shape;
  array.elements_ = elements_of_shape(shape);
  array.dataset_ = create_hdf5_dataset(parent, name, ElementType<T>::file(), simple_space(shape), properties);
  return array;
}

template <class T>
Hdf5Array<T> Hdf5Array<T>::create_rewritable(hid_t parent, const std::string& name, std::int64_t elements, T fill) {
  hdf5_quiet();
  const std::string what = creating(parent, name);
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), what));
  const auto chunk = static_cast<hsize_t>(std::max<std::int64_t>(elements, 1));
  hdf5_check(H5Pset_chunk(properties.id(), 1, &chunk), what);
  hdf5_check(H5Pset_fill_value(properties.id(), ElementType<T>::memory(), &fill), what);
  hdf5_check(H5Pset_alloc_time(properties.id(), H5D_ALLOC_TIME_EARLY), what);
  Hdf5Array array;
  array.shape_ = {elements};
  array.elements_ = elements;
  array.dataset_ = create_hdf5_dataset(parent, name, ElementType<T>::file(), simple_space(array.shape_), properties);
  return array;
}

template <class T>
Hdf5Array<T> Hdf5Array<T>::open(hid_t parent, const std::string& name) {
  Hdf5Array array;
  array.dataset_ = open_hdf5_dataset(parent, name, ElementType<T>::type_class);
  array.shape_ = shape_of(array.dataset_);
  array.elements_ = elements_of_shape(array.shape_);
  return array;
}

template <class T>
void Hdf5Array<T>::write(std::int64_t first, std::span<const T> values) {
  for_each_selection(
      dataset_, shape_, first, std::ssize(values), "write", [&](hid_t memory, hid_t file, std::int64_t offset) {
        return H5Dwrite(dataset_.id(), ElementType<T>::memory(), memory, file, H5P_DEFAULT, values.data() + offset);
      });
}

template <class T>
void Hdf5Array<T>::read(std::int64_t first, std::span<T> values) const {
  for_each_selection(
      dataset_, shape_, first, std::ssize(values), "read", [&](hid_t memory, hid_t file, std::int64_t offset) {
        return H5Dread(dataset_.id(), ElementType<T>::memory(), memory, file, H5P_DEFAULT, values.data() + offset);
      });
}

template <class T>
void Hdf5Array<T>::flush() {
  flush_dataset(dataset_);
}

template <class T>
Hdf5Series<T> Hdf5Series<T>::create(hid_t parent, const std::string& name, std::int64_t width) {
  std::vector<hsize_t> chunk{kSeriesChunk};
  if (width > 0)
    chunk = {static_cast<hsize_t>(std::max<std::int64_t>(1, kRowsChunk / width)), static_cast<hsize_t>(width)};
  Hdf5Series series;
  series.dataset_ = create_growing(parent, name, ElementType<T>::file(), chunk);
  series.width_ = width;
  return series;
}

template <class T>
void Hdf5Series<T>::append(std::span<const T> values) {
  if (values.empty()) return;
  const auto elements = static_cast<std::int64_t>(values.size()), row = std::max<std::int64_t>(1, width_);
  TESSERA_ASSERT(elements % row == 0, "{}: {} elements in rows of {}", hdf5_name(dataset_.id()), elements, row);
  std::vector<hsize_t> count{static_cast<hsize_t>(elements / row)};
  if (width_ > 0) count.push_back(static_cast<hsize_t>(width_));
  append_rows(dataset_, size_, count, ElementType<T>::memory(), elements, values.data());
  size_ += elements / row;
}

template <class T>
void Hdf5Series<T>::flush() {
  flush_dataset(dataset_);
}

template <class T>
void hdf5_write(hid_t parent, const std::string& name, std::span<const T> values,
                const std::vector<std::int64_t>& shape) {
  TESSERA_ASSERT(elements_of_shape(shape) == static_cast<std::int64_t>(values.size()),
                 "{} has {} values, its shape says {}", name, values.size(), elements_of_shape(shape));
  Hdf5Array<T>::create(parent, name, shape).write(0, values);
}

template <class T>
std::vector<T> hdf5_read(hid_t parent, const std::string& name) {
  const auto array = Hdf5Array<T>::open(parent, name);
  hdf5_require_room(parent, name, array.elements());
  std::vector<T> values(static_cast<std::size_t>(array.elements()));
  array.read(0, values);
  return values;
}

template class Hdf5Array<float>;
template class Hdf5Array<double>;
template class Hdf5Array<std::int64_t>;
template class Hdf5Series<double>;
template class Hdf5Series<std::int64_t>;
template void hdf5_write(hid_t, const std::string&, std::span<const float>, const std::vector<std::int64_t>&);
template void hdf5_write(hid_t, const std::string&, std::span<const double>, const std::vector<std::int64_t>&);
template void hdf5_write(hid_t, const std::string&, std::span<const std::int64_t>, const std::vector<std::int64_t>&);
template std::vector<float> hdf5_read(hid_t, const std::string&);
template std::vector<double> hdf5_read(hid_t, const std::string&);
template std::vector<std::int64_t> hdf5_read(hid_t, const std::string&);

}  // namespace tessera
