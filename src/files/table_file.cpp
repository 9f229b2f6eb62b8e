#include "tessera/files/table_file.hpp"

#include <type_traits>

#include "tessera/base/error.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/files/hdf5_dataset.hpp"

namespace tessera {

namespace {

void write_attributes(hid_t parent, const std::string& group, const TableFile::Attributes& attributes) {
  const Hdf5Group here = hdf5_create_group(parent, group);
  for (const auto& [name, value] : attributes) hdf5_write_attribute(here.id(), name, std::string_view(value));
}

void write_values(hid_t group, const TableColumn& column) {
  std::visit(
      [&]<class T>(const std::vector<T>& values) {
        if constexpr (std::is_same_v<T, std::string>) {
          hdf5_write_strings(group, column.name, values);
        } else {
          hdf5_write<T>(group, column.name, values, {static_cast<std::int64_t>(values.size())});
        }
      },
      column.values);
}

void write_table(hid_t file, const Table& table) {
  const Hdf5Group group = hdf5_create_group(file, table.name);
  hdf5_write_attribute(group.id(), "about", std::string_view(table.about));
  const auto length_of = [](const TableColumn& column) {
    return std::visit([](const auto& values) { return values.size(); }, column.values);
  };
  for (const TableColumn& column : table.columns) {
    TESSERA_ASSERT(length_of(column) == length_of(table.columns.front()), "column {} of table {} is not as long as {}",
                   column.name, table.name, table.columns.front().name);
    write_values(group.id(), column);
    if (column.unit.empty()) continue;
    hdf5_write_attribute(open_hdf5_dataset(group.id(), column.name).id(), "unit", std::string_view(column.unit));
  }
}

}  // namespace

struct TableFile::State {
  explicit State(const std::filesystem::path& path) : fresh(path), file(Hdf5File::create(fresh.beside())) {}
  FreshFile fresh;
  Hdf5File file;
};

TableFile::TableFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}

TableFile::~TableFile() = default;

void TableFile::write(const std::vector<Table>& tables, const Attributes& config, const Attributes& provenance) {
  Hdf5File& file = state_->file;
  hdf5_write_attribute(file.id(), "format", std::string_view("tessera bench"));
  hdf5_write_attribute(file.id(), "format_version", std::int64_t{1});
  for (const Table& table : tables) write_table(file.id(), table);
  write_attributes(file.id(), "config", config);
  write_attributes(file.id(), "provenance", provenance);
  file.close();
  state_->fresh.finish();
}

}  // namespace tessera
