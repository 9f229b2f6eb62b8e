#pragma once
// Converts runs of consecutive elements of a row-major array to boxes, the selections of HDF5.

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera {

/// A box inside an array: the selection of one hyperslab.
struct ArrayBox {
  std::vector<hsize_t> start, count;
  std::int64_t elements = 0;
};

/// Cuts the run [first, first + count) of an array of one or more dimensions into boxes, in order. Along each
/// dimension: the rest of a row, whole rows, the rest of a row. Makes at most 2 * dimensions - 1 boxes.
void for_each_box(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count,
                  const std::function<void(const ArrayBox&)>& visit);

}  // namespace tessera
