#include "run/metrics_tables.hpp"

#include <algorithm>
#include <utility>

namespace tessera {

namespace {

/// Returns the group of this path, and creates what is missing of it.
Hdf5Group group_of(hid_t parent, const std::string& path) {
  const std::size_t slash = path.find('/');
  const std::string name = path.substr(0, slash);
  Hdf5Group group = hdf5_has(parent, name) ? hdf5_open_group(parent, name) : hdf5_create_group(parent, name);
  return slash == std::string::npos ? std::move(group) : group_of(group.id(), path.substr(slash + 1));
}

std::size_t values_in(const MetricsColumn& column) {
  return column.kind == ColumnKind::text ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(1, column.width));
}

}  // namespace

std::size_t values_in_row(const MetricsTable& table) {
  std::size_t values = 0;
  for (const MetricsColumn& column : table) values += values_in(column);
  return values;
}

RowTable::RowTable(hid_t file, const MetricsTable& table) {
  std::size_t begin = 0;
  for (const MetricsColumn& column : table) {
    const std::size_t slash = column.path.rfind('/'), values = values_in(column);
    const Hdf5Group group = group_of(file, column.path.substr(0, slash));
    const std::string name = column.path.substr(slash + 1);
    if (column.kind == ColumnKind::integer)
      columns_.push_back({Hdf5Series<std::int64_t>::create(group.id(), name, column.width), begin, values});
    else if (column.kind == ColumnKind::real)
      columns_.push_back({Hdf5Series<double>::create(group.id(), name, column.width), begin, values});
    else
      columns_.push_back({Hdf5Texts::create(group.id(), name, column.width), begin, values});
    begin += values;
  }
}

void RowTable::append(std::span<const MetricsRow> rows) {
  if (rows.empty()) return;
  for (Column& column : columns_) {
    const auto append_values = [&]<class T>(Hdf5Series<T>& series) {
      std::vector<T> values;
      for (const MetricsRow& row : rows) {
        for (std::size_t i = 0; i < column.width; ++i) values.push_back(static_cast<T>(row.values[column.begin + i]));
      }
      series.append(values);
    };
    if (auto* const texts = std::get_if<Hdf5Texts>(&column.data)) {
      for (const MetricsRow& row : rows) texts->append(row.text);
    } else if (auto* const integers = std::get_if<Hdf5Series<std::int64_t>>(&column.data)) {
      append_values(*integers);
    } else {
      append_values(std::get<Hdf5Series<double>>(column.data));
    }
  }
  has_new_rows_ = true;
}

void RowTable::flush() {
  if (!std::exchange(has_new_rows_, false)) return;
  for (Column& column : columns_) std::visit([](auto& data) { data.flush(); }, column.data);
}

MetricsTables::MetricsTables(const std::filesystem::path& path, const MetricsLayout& layout)
    : file_(Hdf5File::create(path, Hdf5File::Create::truncate,
                             layout.swmr ? Hdf5File::Format::newest : Hdf5File::Format::v18)) {
  hdf5_write_attribute(file_.id(), "format", std::string_view("tessera metrics"));
  hdf5_write_attribute(file_.id(), "format_version", std::int64_t{1});
  for (const AttributeGroup& attributes : layout.attributes) {
    const Hdf5Group group = group_of(file_.id(), attributes.path);
    for (const auto& attribute : attributes.values) {
      std::visit([&](const auto& value) { hdf5_write_attribute(group.id(), attribute.first, value); },
                 attribute.second);
    }
  }
  provenance_ = group_of(file_.id(), "provenance");
  if (!layout.schedule.empty()) {
    const Hdf5Dataset schedule = hdf5_write_text(file_.id(), "schedule", layout.schedule);
    hdf5_write_attribute(schedule.id(), "format", std::string_view(layout.schedule_format));
  }
  for (const PlannedMemory& planned : layout.memory) {
    const Hdf5Group group = group_of(file_.id(), "memory/" + planned.category);
    const auto ranks = static_cast<std::int64_t>(planned.bytes.size());
    hdf5_write<std::int64_t>(group.id(), "planned", planned.bytes, {ranks});
    if (planned.category == "process")
      process_memory_ = Hdf5Array<std::int64_t>::create_rewritable(group.id(), "measured", ranks, -1);
  }
  for (const MetricsTable& table : layout.tables) tables_.emplace_back(file_.id(), table);
  file_.flush();
  if (layout.swmr) file_.start_swmr_write();
}

void MetricsTables::write(const MetricsRows& rows) {
  for (std::size_t i = 0; i < rows.tables.size(); ++i) tables_.at(i).append(rows.tables[i]);
  if (!rows.process_memory.empty()) process_memory_->write(0, rows.process_memory);
  for (const auto& [name, value] : rows.numbers) hdf5_update_attribute(provenance_.id(), name, value);
  for (RowTable& table : tables_) table.flush();
  process_memory_->flush();
  hdf5_check(H5Oflush(provenance_.id()), "cannot write " + file_.path().string());
}

void MetricsTables::close() {
  Hdf5File file = std::move(file_);
  { const MetricsTables datasets = std::move(*this); }  // they are closed before the file
  file.close();
}

}  // namespace tessera
