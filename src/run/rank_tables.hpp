#pragma once
// /ranks of a metrics file: every rank's measurements, [report, rank].

#include <functional>
#include <vector>

#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// The group's datasets. Every call on the I/O thread.
class RankTables {
 public:
  RankTables() = default;
  /// Creates the group and all that is in it.
  RankTables(hid_t file, const MetricsLayout& layout);

  /// Appends rows; each has all ranks of the layout.
  void append(const std::vector<RankRow>& rows);
  /// Makes appended rows visible to readers.
  void flush();

 private:
  /// A dataset and its value of a rank.
  template <class T>
  struct Column {
    Hdf5Rows<T> data;
    std::function<T(const RankValues&)> value;
  };
  template <class T>
  void add(hid_t group, const std::string& name, std::function<T(const RankValues&)> value);
  void create_communication(hid_t group);
  void create_memory(hid_t group, const MetricsLayout& layout);
  void create_device(hid_t group);
  template <class F>
  void for_each(F&& f);

  std::int64_t ranks_ = 0;
  bool has_new_rows_ = false;
  Hdf5Series<std::int64_t> report_, steps_, timed_steps_, straggler_;
  Hdf5Series<double> behind_;
  std::vector<Column<std::int64_t>> integers_;
  std::vector<Column<double>> numbers_;
};

}  // namespace tessera
