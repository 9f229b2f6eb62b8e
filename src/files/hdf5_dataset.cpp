#include "tessera/files/hdf5_dataset.hpp"

#include <fmt/format.h>

#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/files/hdf5_data.hpp"

namespace tessera {

std::int64_t elements_of_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements = checked_multiply(elements, extent);
  return elements;
}

Hdf5Space simple_space(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return Hdf5Space(hdf5_check_id(H5Screate(H5S_SCALAR), "cannot make a dataspace"));
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  return Hdf5Space(hdf5_check_id(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                                 "cannot make a dataspace"));
}

std::string creating(hid_t parent, const std::string& name) {
  return fmt::format("cannot create dataset {} in {}", name, hdf5_name(parent));
}

Hdf5Dataset create_hdf5_dataset(hid_t parent, const std::string& name, hid_t type, const Hdf5Space& space,
                                const Hdf5Properties& properties) {
  return Hdf5Dataset(
      hdf5_check_id(H5Dcreate2(parent, name.c_str(), type, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
                    creating(parent, name)));
}

H5T_class_t class_of(const Hdf5Dataset& dataset) {
  const auto what = fmt::format("cannot read the type of {}", hdf5_name(dataset.id()));
  return H5Tget_class(Hdf5Type(hdf5_check_id(H5Dget_type(dataset.id()), what)).id());
}

Hdf5Dataset open_hdf5_dataset(hid_t parent, const std::string& name, H5T_class_t wanted) {
  hdf5_quiet();
  const std::string what = fmt::format("cannot open dataset {} in {}", name, hdf5_name(parent));
  Hdf5Dataset dataset(hdf5_check_id(H5Dopen2(parent, name.c_str(), H5P_DEFAULT), what));
  if (wanted != H5T_NO_CLASS && class_of(dataset) != wanted)
    throw IoError("{} (its elements are of another kind)", what);
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

namespace {

/// On a full disk rows may be there whose values never were: they read as NaN or -1, not as a measured 0.
void set_fill_value(hid_t properties, hid_t type, const std::string& what) {
  const double unknown_real = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t unknown_integer = -1;
  if (H5Tget_class(type) == H5T_FLOAT)
    hdf5_check(H5Pset_fill_value(properties, H5T_NATIVE_DOUBLE, &unknown_real), what);
  if (H5Tget_class(type) == H5T_INTEGER)
    hdf5_check(H5Pset_fill_value(properties, H5T_NATIVE_INT64, &unknown_integer), what);
}

}  // namespace

Hdf5Dataset create_growing(hid_t parent, const std::string& name, hid_t type, const std::vector<hsize_t>& chunk) {
  hdf5_quiet();
  const std::string what = creating(parent, name);
  const int rank = static_cast<int>(chunk.size());
  const Hdf5Properties properties(hdf5_check_id(H5Pcreate(H5P_DATASET_CREATE), what));
  hdf5_check(H5Pset_chunk(properties.id(), rank, chunk.data()), what);
  set_fill_value(properties.id(), type, what);
  std::vector<hsize_t> none = chunk, unlimited = chunk;
  none[0] = 0, unlimited[0] = H5S_UNLIMITED;
  const Hdf5Space space(hdf5_check_id(H5Screate_simple(rank, none.data(), unlimited.data()), what));
  return create_hdf5_dataset(parent, name, type, space, properties);
}

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

void hdf5_require_room(hid_t parent, const std::string& name, std::int64_t elements) {
  const std::string what = fmt::format("cannot read {} in {}", name, hdf5_name(parent));
  const Hdf5Handle<&H5Fclose> file(hdf5_check_id(H5Iget_file_id(parent), what));
  hsize_t bytes = 0;
  hdf5_check(H5Fget_filesize(file.id(), &bytes), what);
  if (elements < 0 || static_cast<hsize_t>(elements) > bytes)
    throw IoError("{} (it claims {} elements, and the file has {} bytes)", what, elements, bytes);
}

}  // namespace tessera
