#include "run/overlap_tables.hpp"

#include <utility>

#include "run/append_column.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

OverlapTables::OverlapTables(hid_t file, const std::vector<std::string>& names) {
  const Hdf5Group group = hdf5_create_group(file, "overlap");
  step_ = Hdf5Series<std::int64_t>::create(group.id(), "step");
  straggler_ = Hdf5Series<std::int64_t>::create(group.id(), "straggler");
  behind_ = Hdf5Series<double>::create(group.id(), "behind_seconds");
  for (const std::string& name : names) {
    const Hdf5Group time = hdf5_create_group(group.id(), name);
    times_.push_back({Hdf5Series<double>::create(time.id(), "min"), Hdf5Series<double>::create(time.id(), "median"),
                      Hdf5Series<double>::create(time.id(), "max")});
  }
}

void OverlapTables::append(const std::vector<OverlapRow>& rows) {
  if (rows.empty()) return;
  for (const OverlapRow& row : rows) {
    TESSERA_ASSERT(row.times.size() == times_.size(), "a step has {} times over ranks, /overlap has {}",
                   row.times.size(), times_.size());
  }
  for (std::size_t i = 0; i < times_.size(); ++i) {
    append_column(times_[i].minimum, rows, [i](const OverlapRow& row) { return row.times[i].minimum; });
    append_column(times_[i].median, rows, [i](const OverlapRow& row) { return row.times[i].median; });
    append_column(times_[i].maximum, rows, [i](const OverlapRow& row) { return row.times[i].maximum; });
  }
  append_column(straggler_, rows, [](const OverlapRow& row) { return row.straggler.rank; });
  append_column(behind_, rows, [](const OverlapRow& row) { return row.straggler.behind_seconds; });
  append_column(step_, rows, [](const OverlapRow& row) { return row.step; });
  has_new_rows_ = true;
}

void OverlapTables::flush() {
  if (!std::exchange(has_new_rows_, false)) return;
  for (Time& time : times_) {
    for (auto* series : {&time.minimum, &time.median, &time.maximum}) series->flush();
  }
  behind_.flush();
  straggler_.flush();
  step_.flush();
}

}  // namespace tessera
