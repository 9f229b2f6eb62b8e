#pragma once
// Tables of a metrics file: datasets that grow with every row.

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/files/hdf5_data.hpp"

namespace tessera {

/// Columns of numbers, written and flushed in the order in which they were added, with every call on the I/O thread.
template <class Row>
class RowTable {
 public:
  /// Adds a dataset with one value for each row.
  template <class T>
  void add(hid_t group, const std::string& name, std::function<T(const Row&)> value) {
    add_wide<T>(group, name, 0, [value](const Row& row, std::vector<T>& out) { out.push_back(value(row)); });
  }
  /// Adds a dataset with `width` values for each row, which `values` appends to its second argument.
  template <class T>
  void add_wide(hid_t group, const std::string& name, std::int64_t width,
                std::function<void(const Row&, std::vector<T>&)> values) {
    columns_.push_back(Column<T>{Hdf5Series<T>::create(group, name, width), std::move(values)});
  }

  void append(const std::vector<Row>& rows) {
    if (rows.empty()) return;
    for_each([&]<class T>(Column<T>& column) {
      std::vector<T> values;
      for (const Row& row : rows) column.values(row, values);
      column.data.append(values);
    });
    has_new_rows_ = true;
  }

  /// Makes appended rows visible to readers.
  void flush() {
    if (std::exchange(has_new_rows_, false)) for_each([](auto& column) { column.data.flush(); });
  }

 private:
  template <class T>
  struct Column {
    Hdf5Series<T> data;
    std::function<void(const Row&, std::vector<T>&)> values;
  };
  template <class F>
  void for_each(F&& f) {
    for (auto& column : columns_) std::visit(f, column);
  }

  std::vector<std::variant<Column<std::int64_t>, Column<double>>> columns_;
  bool has_new_rows_ = false;
};

}  // namespace tessera
