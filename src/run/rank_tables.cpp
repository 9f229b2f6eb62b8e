#include <fmt/ranges.h>

#include "run/metrics_tables.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// The datasets of /ranks that have a value for each rank.
class RankColumns {
 public:
  RankColumns(RowTable<RankRow>& table, const MetricsLayout& layout)
      : table_(table), ranks_(static_cast<std::int64_t>(layout.memory.at(0).bytes.size())) {}

  template <class T>
  void add(hid_t group, const std::string& name, std::function<T(const RankValues&)> value) {
    table_.add_wide<T>(group, name, ranks_, [value](const RankRow& row, std::vector<T>& out) {
      for (const RankValues& rank : row.ranks) out.push_back(value(rank));
    });
  }

 private:
  RowTable<RankRow>& table_;
  std::int64_t ranks_;
};

void add_communication(hid_t group, RankColumns& columns) {
  const Hdf5Group all = hdf5_create_group(group, "comm");
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    const Hdf5Group kind = hdf5_create_group(all.id(), kCollectiveNames[i]);
    columns.add<std::int64_t>(kind.id(), "calls", [i](const RankValues& rank) { return rank.communication[i].calls; });
    columns.add<std::int64_t>(kind.id(), "bytes", [i](const RankValues& rank) { return rank.communication[i].bytes; });
    columns.add<double>(kind.id(), "seconds", [i](const RankValues& rank) { return rank.communication[i].seconds; });
  }
}

void add_memory(hid_t group, RankColumns& columns) {
  const Hdf5Group all = hdf5_create_group(group, "memory");
  columns.add<std::int64_t>(hdf5_create_group(all.id(), "process").id(), "measured", &RankValues::process);
  columns.add<double>(all.id(), "peak", &RankValues::memory_peak);
  columns.add<double>(all.id(), "average", &RankValues::memory_average);
}

void add_device(hid_t group, RankColumns& columns) {
  const Hdf5Group device = hdf5_create_group(group, "device");
  columns.add<std::int64_t>(device.id(), "memory_used", [](const RankValues& rank) { return rank.device.memory_used; });
  columns.add<double>(device.id(), "utilization", [](const RankValues& rank) { return rank.device.utilization; });
  columns.add<double>(device.id(), "power", [](const RankValues& rank) { return rank.device.power; });
  columns.add<double>(device.id(), "energy", [](const RankValues& rank) { return rank.device.energy; });
}

}  // namespace

RowTable<RankRow> create_ranks(hid_t file, const MetricsLayout& layout) {
  const Hdf5Group group = hdf5_create_group(file, "ranks");
  RowTable<RankRow> table;
  RankColumns columns(table, layout);
  const Hdf5Group time = hdf5_create_group(group.id(), "time");
  for (std::size_t i = 0; i < layout.rank_times.size(); ++i)
    columns.add<double>(time.id(), layout.rank_times[i], [i](const RankValues& rank) { return rank.times[i]; });
  add_communication(group.id(), columns);
  add_memory(group.id(), columns);
  if (layout.device) add_device(group.id(), columns);
  table.add<std::int64_t>(group.id(), "steps", &RankRow::steps);
  table.add<std::int64_t>(group.id(), "timed_steps", &RankRow::timed_steps);
  table.add<std::int64_t>(group.id(), "straggler", [](const RankRow& row) { return row.straggler.rank; });
  table.add<double>(group.id(), "behind_seconds", [](const RankRow& row) { return row.straggler.behind_seconds; });
  table.add<std::int64_t>(group.id(), "report", &RankRow::step);
  return table;
}

RowTable<RankRow> create_layers(hid_t file, const std::vector<std::string>& names) {
  const Hdf5Group group = hdf5_create_group(file, "layers");
  hdf5_write_attribute(group.id(), "names", std::string_view(fmt::format("{}", fmt::join(names, ","))));
  RowTable<RankRow> table;
  table.add_wide<double>(group.id(), "grad_norm", static_cast<std::int64_t>(names.size()),
                         [](const RankRow& row, std::vector<double>& out) {
                           out.insert(out.end(), row.layer_norms.begin(), row.layer_norms.end());
                         });
  table.add<std::int64_t>(group.id(), "step", &RankRow::step);
  return table;
}

RowTable<OverlapRow> create_overlap(hid_t file, const std::vector<std::string>& names) {
  const Hdf5Group group = hdf5_create_group(file, "overlap");
  RowTable<OverlapRow> table;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Hdf5Group time = hdf5_create_group(group.id(), names[i]);
    const auto add = [&](const char* name, double Spread::*member) {
      table.add<double>(time.id(), name, [i, member, kinds = names.size()](const OverlapRow& row) {
        TESSERA_ASSERT(row.times.size() == kinds, "a step has {} times over ranks, /overlap has {}", row.times.size(),
                       kinds);
        return row.times[i].*member;
      });
    };
    add("min", &Spread::minimum);
    add("median", &Spread::median);
    add("max", &Spread::maximum);
  }
  table.add<std::int64_t>(group.id(), "straggler", [](const OverlapRow& row) { return row.straggler.rank; });
  table.add<double>(group.id(), "behind_seconds", [](const OverlapRow& row) { return row.straggler.behind_seconds; });
  table.add<std::int64_t>(group.id(), "step", &OverlapRow::step);
  return table;
}

}  // namespace tessera
