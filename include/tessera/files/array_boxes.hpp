#pragma once
// Runs of consecutive elements of a row-major array as boxes, which is what HDF5 selects.

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera {

/// A box inside an array: what one hyperslab selects.
struct ArrayBox {
  std::vector<hsize_t> start, count;
  std::int64_t elements = 0;
};

/// Cuts the run [first, first + count) of an array of one or more dimensions into boxes, in order: along each dimension
/// a rest of a row, whole rows, a rest of a row; at most 2 * dimensions - 1 boxes.
void for_each_box(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count,
                  const std::function<void(const ArrayBox&)>& visit);

}  // namespace tessera
