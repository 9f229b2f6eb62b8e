#include "tessera/files/hdf5_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/files/array_boxes.hpp"

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

std::vector<hsize_t> extents(const std::vector<std::int64_t>& shape) { return {shape.begin(), shape.end()}; }

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements = checked_multiply(elements, extent);
  return elements;
}

Hdf5Space simple_space(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return Hdf5Space(hdf5_check_id(H5Screate(H5S_SCALAR), "cannot make a dataspace"));
  const std::vector<hsize_t> sizes = extents(shape);
  return Hdf5Space(hdf5_check_id(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                                 "cannot make a dataspace"));
}

std::string creating(hid_t parent, const std::string& name) {
  return fmt::format("cannot create dataset {} in {}", name, hdf5_name(parent));
}

Hdf5Dataset create_dataset(hid_t parent, const std::string& name, hid_t type, const Hdf5Space& space,
                           const Hdf5Properties& properties) {
  return Hdf5Dataset(
      hdf5_check_id(H5Dcreate2(parent, name.c_str(), type, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
                    creating(parent, name)));
}

Hdf5Dataset write_texts(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape,
                        const std::vector<const char*>& texts) {
  hdf5_quiet();
  const Hdf5Type type = hdf5_text_type();
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), creating(parent, name)));
  Hdf5Dataset dataset = create_dataset(parent, name, type.id(), simple_space(shape), properties);
  if (texts.empty()) return dataset;
  hdf5_check(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()),
             fmt::format("cannot write {}", hdf5_name(dataset.id())));
  return dataset;
}

Hdf5Dataset open_dataset(hid_t parent, const std::string& name, H5T_class_t wanted) {
  hdf5_quiet();
  const std::string what = fmt::format("cannot open dataset {} in {}", name, hdf5_name(parent));
  Hdf5Dataset dataset(hdf5_check_id(H5Dopen2(parent, name.c_str(), H5P_DEFAULT), what));
  const Hdf5Type type(hdf5_check_id(H5Dget_type(dataset.id()), what));
  if (H5Tget_class(type.id()) != wanted) throw IoError("{} (its elements are of another kind)", what);
  return dataset;
}

std::vector<std::int64_t> shape_of(const Hdf5Dataset& dataset) {
  const std::string what = fmt::format("cannot read the shape of {}", hdf5_name(dataset.id()));
  const Hdf5Space space(hdf5_check_id(H5Dget_space(dataset.id()), what));
  const int rank = H5Sget_simple_extent_ndims(space.id());
  hdf5_check(rank, what);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  if (rank > 0) hdf5_check(H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr), what);
  return {sizes.begin(), sizes.end()};
}

/// Calls H5Dread or H5Dwrite as transfer(memory space, file space, offset into the caller's elements) for each box of
/// the run. `verb` is for messages.
void for_each_selection(const Hdf5Dataset& dataset, const std::vector<std::int64_t>& shape, std::int64_t first,
                        std::int64_t count, const char* verb,
                        const std::function<herr_t(hid_t, hid_t, std::int64_t)>& transfer) {
  hdf5_quiet();
  const std::string name = hdf5_name(dataset.id());
  const std::int64_t elements = product(shape);
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

/// Creates an empty dataset of chunks, which grows in its first dimension.
Hdf5Dataset create_growing(hid_t parent, const std::string& name, hid_t type, const std::vector<hsize_t>& chunk) {
  hdf5_quiet();
  const std::string what = creating(parent, name);
  const int rank = static_cast<int>(chunk.size());
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), what));
  hdf5_check(H5Pset_chunk(properties.id(), rank, chunk.data()), what);
  std::vector<hsize_t> none = chunk, unlimited = chunk;
  none[0] = 0, unlimited[0] = H5S_UNLIMITED;
  const Hdf5Space space(hdf5_check_id(H5Screate_simple(rank, none.data(), unlimited.data()), what));
  return create_dataset(parent, name, type, space, properties);
}

/// Appends values after the first `done` rows; count[0] rows.
void append_rows(const Hdf5Dataset& dataset, std::int64_t done, const std::vector<hsize_t>& count, hid_t type,
                 std::int64_t elements, const void* values) {
  hdf5_quiet();
  const std::string what = fmt::format("cannot append to {}", hdf5_name(dataset.id()));
  std::vector<hsize_t> start(count.size(), 0), extent = count;
  start[0] = static_cast<hsize_t>(done);
  extent[0] += start[0];
  hdf5_check(H5Dset_extent(dataset.id(), extent.data()), what);
  const Hdf5Space file(hdf5_check_id(H5Dget_space(dataset.id()), what));
  hdf5_check(H5Sselect_hyperslab(file.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), what);
  const Hdf5Space memory = simple_space({elements});
  hdf5_check(H5Dwrite(dataset.id(), type, memory.id(), file.id(), H5P_DEFAULT, values), what);
}

void flush_dataset(const Hdf5Dataset& dataset) {
  hdf5_quiet();
  hdf5_check(H5Dflush(dataset.id()), fmt::format("cannot write {}", hdf5_name(dataset.id())));
}

}  // namespace

template <class T>
Hdf5Array<T> Hdf5Array<T>::create(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape) {
  hdf5_quiet();
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), creating(parent, name)));
  hdf5_check(H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER), creating(parent, name));
  Hdf5Array array;
  array.shape_ = shape;
  array.elements_ = product(shape);
  array.dataset_ = create_dataset(parent, name, ElementType<T>::file(), simple_space(shape), properties);
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
  array.dataset_ = create_dataset(parent, name, ElementType<T>::file(), simple_space(array.shape_), properties);
  return array;
}

template <class T>
Hdf5Array<T> Hdf5Array<T>::open(hid_t parent, const std::string& name) {
  Hdf5Array array;
  array.dataset_ = open_dataset(parent, name, ElementType<T>::type_class);
  array.shape_ = shape_of(array.dataset_);
  array.elements_ = product(array.shape_);
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

Hdf5Texts Hdf5Texts::create(hid_t parent, const std::string& name, std::int64_t bytes) {
  hdf5_quiet();
  Hdf5Texts texts;
  texts.type_ = Hdf5Type(hdf5_check_id(H5Tcopy(H5T_C_S1), creating(parent, name)));
  hdf5_check(H5Tset_size(texts.type_.id(), static_cast<std::size_t>(bytes)), creating(parent, name));
  hdf5_check(H5Tset_cset(texts.type_.id(), H5T_CSET_UTF8), creating(parent, name));
  hdf5_check(H5Tset_strpad(texts.type_.id(), H5T_STR_NULLPAD), creating(parent, name));
  texts.dataset_ = create_growing(parent, name, texts.type_.id(), {4});
  texts.bytes_ = bytes;
  return texts;
}

void Hdf5Texts::append(std::string text) {
  auto size = static_cast<std::size_t>(bytes_);
  // Not in the middle of a character.
  while (text.size() > size && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  if (text.size() > size) text.resize(size);
  text.resize(static_cast<std::size_t>(bytes_), '\0');
  append_rows(dataset_, size_, {1}, type_.id(), 1, text.data());
  ++size_;
}

void Hdf5Texts::flush() { flush_dataset(dataset_); }

template <class T>
void hdf5_write(hid_t parent, const std::string& name, std::span<const T> values,
                const std::vector<std::int64_t>& shape) {
  TESSERA_ASSERT(product(shape) == static_cast<std::int64_t>(values.size()), "{} has {} values, its shape says {}",
                 name, values.size(), product(shape));
  Hdf5Array<T>::create(parent, name, shape).write(0, values);
}

void hdf5_require_room(hid_t parent, const std::string& name, std::int64_t elements) {
  const std::string what = fmt::format("cannot read {} in {}", name, hdf5_name(parent));
  const Hdf5Handle<&H5Fclose> file(hdf5_check_id(H5Iget_file_id(parent), what));
  hsize_t bytes = 0;
  hdf5_check(H5Fget_filesize(file.id(), &bytes), what);
  if (elements < 0 || static_cast<hsize_t>(elements) > bytes)
    throw IoError("{} (it claims {} elements, and the file has {} bytes)", what, elements, bytes);
}

template <class T>
std::vector<T> hdf5_read(hid_t parent, const std::string& name) {
  const auto array = Hdf5Array<T>::open(parent, name);
  hdf5_require_room(parent, name, array.elements());
  std::vector<T> values(static_cast<std::size_t>(array.elements()));
  array.read(0, values);
  return values;
}

void hdf5_write_strings(hid_t parent, const std::string& name, const std::vector<std::string>& values) {
  std::vector<const char*> pointers;
  pointers.reserve(values.size());
  for (const std::string& value : values) pointers.push_back(value.c_str());
  write_texts(parent, name, {static_cast<std::int64_t>(values.size())}, pointers);
}

Hdf5Dataset hdf5_write_text(hid_t parent, const std::string& name, const std::string& text) {
  return write_texts(parent, name, {}, {text.c_str()});
}

std::vector<std::string> hdf5_read_strings(hid_t parent, const std::string& name) {
  const Hdf5Dataset dataset = open_dataset(parent, name, H5T_STRING);
  const std::string what = fmt::format("cannot read {}", hdf5_name(dataset.id()));
  const Hdf5Type file_type(hdf5_check_id(H5Dget_type(dataset.id()), what));
  if (H5Tis_variable_str(file_type.id()) <= 0) throw IoError("{} (its strings are of fixed length)", what);
  const std::int64_t elements = product(shape_of(dataset));
  hdf5_require_room(parent, name, elements);
  std::vector<char*> pointers(static_cast<std::size_t>(elements), nullptr);
  if (pointers.empty()) return {};
  hdf5_check(H5Dread(dataset.id(), file_type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), what);
  std::vector<std::string> values;
  for (char* text : pointers) {
    values.emplace_back(text != nullptr ? text : "");
    H5free_memory(text);
  }
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
