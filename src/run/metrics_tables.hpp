#pragma once
// The datasets of a metrics file as rows come in, with every call on the I/O thread. metrics_file.cpp has the queueing.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// Returns how many values MetricsRow::values has in a row of the table.
std::size_t values_in_row(const MetricsTable& table);

/// The columns of a table, written and flushed in their order.
class RowTable {
 public:
  RowTable(hid_t file, const MetricsTable& table);
  void append(std::span<const MetricsRow> rows);
  /// Makes appended rows visible to readers.
  void flush();

 private:
  struct Column {
    std::variant<Hdf5Series<std::int64_t>, Hdf5Series<double>, Hdf5Texts> data;
    std::size_t begin, width;  ///< its values in a row
  };
  std::vector<Column> columns_;
  bool has_new_rows_ = false;
};

/// Rows and values that wait to be written.
struct MetricsRows {
  std::vector<std::vector<MetricsRow>> tables{};          ///< in the order of the layout
  std::vector<std::int64_t> process_memory{};             ///< empty: not measured
  std::vector<std::pair<std::string, double>> numbers{};  ///< of /provenance
};

/// The open file with all its datasets.
class MetricsTables {
 public:
  /// Creates the file (replacing one of that name) and everything in it, then lets readers in.
  MetricsTables(const std::filesystem::path& path, const MetricsLayout& layout);

  /// Writes rows and values, and makes them visible to readers.
  void write(const MetricsRows& rows);
  /// Hands the whole file to the operating system, so that without SWMR a copy of it is complete.
  void flush_file() { file_.flush(); }
  /// Closes all datasets, then the file.
  void close();

 private:
  Hdf5File file_;
  Hdf5Group provenance_;
  std::vector<RowTable> tables_;
  std::optional<Hdf5Array<std::int64_t>> process_memory_;
};

}  // namespace tessera
