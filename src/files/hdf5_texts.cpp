// Texts in HDF5: of variable length, and in a series that grows.
#include <fmt/format.h>

#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/files/hdf5_dataset.hpp"

namespace tessera {

namespace {

Hdf5Dataset write_texts(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape,
                        const std::vector<const char*>& texts) {
  hdf5_quiet();
  const Hdf5Type type = hdf5_text_type();
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), creating(parent, name)));
  Hdf5Dataset dataset = create_hdf5_dataset(parent, name, type.id(), simple_space(shape), properties);
  if (texts.empty()) return dataset;
  hdf5_check(H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()),
             fmt::format("cannot write {}", hdf5_name(dataset.id())));
  return dataset;
}

}  // namespace

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
  const Hdf5Dataset dataset = open_hdf5_dataset(parent, name, H5T_STRING);
  const std::string what = fmt::format("cannot read {}", hdf5_name(dataset.id()));
  const Hdf5Type file_type(hdf5_check_id(H5Dget_type(dataset.id()), what));
  if (H5Tis_variable_str(file_type.id()) <= 0) throw IoError("{} (its strings are of fixed length)", what);
  const std::int64_t elements = elements_of_shape(shape_of(dataset));
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

}  // namespace tessera
