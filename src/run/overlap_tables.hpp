#pragma once
// /overlap of a metrics file: what all ranks did in each timed step.

#include <string>
#include <vector>

#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// The group's datasets. Every call on the I/O thread.
class OverlapTables {
 public:
  OverlapTables() = default;
  /// Creates the group and all that is in it.
  OverlapTables(hid_t file, const std::vector<std::string>& names);

  /// Appends rows; each has a time for every name.
  void append(const std::vector<OverlapRow>& rows);
  /// Makes appended rows visible to readers.
  void flush();

 private:
  struct Time {
    Hdf5Series<double> minimum, median, maximum;
  };
  Hdf5Series<std::int64_t> step_, straggler_;
  Hdf5Series<double> behind_;
  std::vector<Time> times_;
  bool has_new_rows_ = false;
};

}  // namespace tessera
