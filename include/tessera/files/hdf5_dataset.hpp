#pragma once
// Datasets of any type: created, opened, and grown. `what` of errors names the dataset and its file.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/files/hdf5.hpp"

namespace tessera {

/// Returns the elements of a shape; UsageError if 64 bits do not hold them.
std::int64_t elements_of_shape(const std::vector<std::int64_t>& shape);
Hdf5Space simple_space(const std::vector<std::int64_t>& shape);
/// Returns the words of an error.
std::string creating(hid_t parent, const std::string& name);
Hdf5Dataset create_hdf5_dataset(hid_t parent, const std::string& name, hid_t type, const Hdf5Space& space,
                                const Hdf5Properties& properties);
/// IoError if it is missing or its elements are not of the class `wanted`, if one is.
Hdf5Dataset open_hdf5_dataset(hid_t parent, const std::string& name, H5T_class_t wanted = H5T_NO_CLASS);
H5T_class_t class_of(const Hdf5Dataset& dataset);
std::vector<std::int64_t> shape_of(const Hdf5Dataset& dataset);
/// Creates an empty dataset of chunks, which grows in its first dimension.
Hdf5Dataset create_growing(hid_t parent, const std::string& name, hid_t type, const std::vector<hsize_t>& chunk);
/// Appends values after the first `done` rows; count[0] rows.
void append_rows(const Hdf5Dataset& dataset, std::int64_t done, const std::vector<hsize_t>& count, hid_t type,
                 std::int64_t elements, const void* values);
void flush_dataset(const Hdf5Dataset& dataset);

}  // namespace tessera
