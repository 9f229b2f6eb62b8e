#pragma once
// Tables of results as an HDF5 file: a group for each table, a dataset for each column with its unit. The origin of the
// results is included.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

/// One value for each row of a table.
struct TableColumn {
  std::string name, unit;  ///< the unit as text: "s", "B", "B/s", "FLOP/s"; "1" for shares and counts; empty for text
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>> values;
};

/// Makes a column of what `of` returns for each row: numbers or texts.
template <class Rows, class Of>
TableColumn column(std::string name, std::string unit, const Rows& rows, Of of) {
  std::vector<std::decay_t<decltype(std::invoke(of, rows.front()))>> values;
  for (const auto& row : rows) values.push_back(std::invoke(of, row));
  return {std::move(name), std::move(unit), std::move(values)};
}

/// Columns of one length.
struct Table {
  std::string name, about;  ///< about: one sentence for readers, attribute `about` of the group
  std::vector<TableColumn> columns;
};

/// A file that gets its name only once it is complete.
class TableFile {
 public:
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  /// UsageError if `path` exists, IoError if a file cannot be made there: before anything is measured.
  explicit TableFile(const std::filesystem::path& path);
  ~TableFile();
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  /// Writes groups /NAME of the tables, /config and /provenance; then the file gets its name. Once. IoError.
  void write(const std::vector<Table>& tables, const Attributes& config, const Attributes& provenance);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
