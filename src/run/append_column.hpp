#pragma once
// Columns of rows that are appended to a metrics file.

#include <vector>

#include "tessera/files/hdf5_data.hpp"

namespace tessera {

/// Appends one value per row, chosen by `value`.
template <class T, class Row, class F>
void append_column(Hdf5Series<T>& series, const std::vector<Row>& rows, F&& value) {
  std::vector<T> column;
  column.reserve(rows.size());
  for (const Row& row : rows) column.push_back(value(row));
  series.append(column);
}

}  // namespace tessera
