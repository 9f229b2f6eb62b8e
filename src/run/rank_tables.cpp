#include "run/rank_tables.hpp"

#include <string>
#include <type_traits>

#include "run/append_column.hpp"

namespace tessera {

template <class T>
void RankTables::add(hid_t group, const std::string& name, std::function<T(const RankValues&)> value) {
  Column<T> column{Hdf5Rows<T>::create(group, name, ranks_), std::move(value)};
  if constexpr (std::is_same_v<T, double>) {
    numbers_.push_back(std::move(column));
  } else {
    integers_.push_back(std::move(column));
  }
}

RankTables::RankTables(hid_t file, const MetricsLayout& layout)
    : ranks_(layout.memory.empty() ? 1 : static_cast<std::int64_t>(layout.memory.front().bytes.size())) {
  const Hdf5Group group = hdf5_create_group(file, "ranks");
  report_ = Hdf5Series<std::int64_t>::create(group.id(), "report");
  steps_ = Hdf5Series<std::int64_t>::create(group.id(), "steps");
  timed_steps_ = Hdf5Series<std::int64_t>::create(group.id(), "timed_steps");
  straggler_ = Hdf5Series<std::int64_t>::create(group.id(), "straggler");
  behind_ = Hdf5Series<double>::create(group.id(), "behind_seconds");
  const Hdf5Group time = hdf5_create_group(group.id(), "time");
  for (std::size_t i = 0; i < layout.rank_times.size(); ++i)
    add<double>(time.id(), layout.rank_times[i], [i](const RankValues& rank) { return rank.times[i]; });
  create_communication(group.id());
  create_memory(group.id(), layout);
  if (layout.device) create_device(group.id());
}

void RankTables::create_communication(hid_t group) {
  const Hdf5Group all = hdf5_create_group(group, "comm");
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    const Hdf5Group kind = hdf5_create_group(all.id(), kCollectiveNames[i]);
    add<std::int64_t>(kind.id(), "calls", [i](const RankValues& rank) { return rank.communication[i].calls; });
    add<std::int64_t>(kind.id(), "bytes", [i](const RankValues& rank) { return rank.communication[i].bytes; });
    add<double>(kind.id(), "seconds", [i](const RankValues& rank) { return rank.communication[i].seconds; });
  }
}

void RankTables::create_memory(hid_t group, const MetricsLayout& layout) {
  const Hdf5Group all = hdf5_create_group(group, "memory");
  for (std::size_t i = 0; i < layout.memory.size(); ++i) {
    const Hdf5Group category = hdf5_create_group(all.id(), layout.memory[i].category);
    add<std::int64_t>(category.id(), "measured", [i](const RankValues& rank) { return rank.measured[i]; });
  }
  add<double>(all.id(), "peak", [](const RankValues& rank) { return rank.memory_peak; });
  add<double>(all.id(), "average", [](const RankValues& rank) { return rank.memory_average; });
}

void RankTables::create_device(hid_t group) {
  const Hdf5Group device = hdf5_create_group(group, "device");
  add<std::int64_t>(device.id(), "memory_used", [](const RankValues& rank) { return rank.device.memory_used; });
  add<double>(device.id(), "utilization", [](const RankValues& rank) { return rank.device.utilization; });
  add<double>(device.id(), "power", [](const RankValues& rank) { return rank.device.power; });
  add<double>(device.id(), "energy", [](const RankValues& rank) { return rank.device.energy; });
}

template <class F>
void RankTables::for_each(F&& f) {
  for (auto& column : integers_) f(column);
  for (auto& column : numbers_) f(column);
}

void RankTables::append(const std::vector<RankRow>& rows) {
  if (rows.empty()) return;
  for_each([&]<class T>(Column<T>& column) {
    std::vector<T> values;
    for (const RankRow& row : rows) {
      for (const RankValues& rank : row.ranks) values.push_back(column.value(rank));
    }
    column.data.append(values);
  });
  append_column(steps_, rows, [](const RankRow& row) { return row.steps; });
  append_column(timed_steps_, rows, [](const RankRow& row) { return row.timed_steps; });
  append_column(straggler_, rows, [](const RankRow& row) { return row.straggler.rank; });
  append_column(behind_, rows, [](const RankRow& row) { return row.straggler.behind_seconds; });
  append_column(report_, rows, [](const RankRow& row) { return row.step; });
  has_new_rows_ = true;
}

void RankTables::flush() {
  if (!std::exchange(has_new_rows_, false)) return;
  for_each([](auto& column) { column.data.flush(); });
  behind_.flush();
  for (auto* series : {&steps_, &timed_steps_, &straggler_, &report_}) series->flush();
}

}  // namespace tessera
