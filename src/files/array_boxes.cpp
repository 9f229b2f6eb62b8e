#include "tessera/files/array_boxes.hpp"

#include <algorithm>

namespace tessera {

void for_each_box(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count,
                  const std::function<void(const ArrayBox&)>& visit) {
  std::vector<std::int64_t> row(shape.size(), 1);  // elements below one index of dimension d
  for (std::size_t d = shape.size() - 1; d > 0; --d) row[d - 1] = row[d] * shape[d];
  while (count > 0) {
    // The outermost dimension along which a full row starts here and fits; the last dimension always does.
    std::size_t d = 0;
    while (first % row[d] != 0 || count < row[d]) ++d;
    // As many rows as fit, within the enclosing row.
    const std::int64_t index = first / row[d] % shape[d];
    const std::int64_t rows = std::min(count / row[d], shape[d] - index);
    ArrayBox box;
    box.start.resize(shape.size());
    box.count.resize(shape.size());
    for (std::size_t k = 0; k < shape.size(); ++k) {
      box.start[k] = static_cast<hsize_t>(first / row[k] % shape[k]);
      box.count[k] = static_cast<hsize_t>(k < d ? 1 : k == d ? rows : shape[k]);
    }
    box.elements = rows * row[d];
    visit(box);
    first += box.elements;
    count -= box.elements;
  }
}

}  // namespace tessera
