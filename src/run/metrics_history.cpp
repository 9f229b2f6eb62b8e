#include "tessera/run/metrics_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/files/hdf5_dataset.hpp"

namespace tessera {

namespace {

constexpr std::string_view kPrefix = "metrics.", kSuffix = ".h5";

/// Returns N of "metrics.N.h5"; -1 for any other name.
std::int64_t number_of(std::string_view name) {
  if (name == "metrics.h5") return 0;
  if (!name.starts_with(kPrefix) || name.size() <= kPrefix.size() + kSuffix.size()) return -1;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number > 0 && fmt::format("metrics.{}.h5", number) == name ? number : -1;
}

bool is_group(hid_t parent, const std::string& name) {
  const Hdf5Handle<&H5Oclose> object(hdf5_check_id(H5Oopen(parent, name.c_str(), H5P_DEFAULT),
                                                   fmt::format("cannot open {} in {}", name, hdf5_name(parent))));
  return H5Iget_type(object.id()) == H5I_GROUP;
}

/// Returns the length of a dataset's first dimension.
std::int64_t rows_of(hid_t parent, const std::string& name) {
  const std::vector<std::int64_t> shape = shape_of(open_hdf5_dataset(parent, name));
  return shape.empty() ? 1 : shape.front();
}

/// Returns the length that all series below a group have.
std::int64_t shortest(hid_t group) {
  std::int64_t rows = std::numeric_limits<std::int64_t>::max();
  for (const std::string& name : hdf5_list(group)) {
    rows = std::min(rows, is_group(group, name) ? shortest(hdf5_open_group(group, name).id()) : rows_of(group, name));
  }
  return rows;
}

/// How many rows of each of the file's tables belong to steps up to the last one that counts.
class KeptRows {
 public:
  KeptRows(const Hdf5File& file, std::int64_t last_step) {
    for (const std::string& table : hdf5_list(file.id())) {
      if (!is_group(file.id(), table)) continue;
      const Hdf5Group group = hdf5_open_group(file.id(), table);
      const char* const column = hdf5_has(group.id(), "report") ? "report" : "step";
      if (!hdf5_has(group.id(), column)) continue;
      const auto steps = hdf5_read<std::int64_t>(group.id(), column);
      std::int64_t there = shortest(group.id());
      // A row of /comm belongs to one of /steps.
      const bool is_steps = table == "steps" && hdf5_has(file.id(), "comm");
      if (is_steps) there = std::min(there, shortest(hdf5_open_group(file.id(), "comm").id()));
      there = std::min(there, static_cast<std::int64_t>(steps.size()));
      // On a full disk rows may be left without their step, which reads as -1.
      const auto unwritten = std::find_if(steps.begin(), steps.begin() + there, [](auto step) { return step < 0; });
      has_unwritten_rows_ = has_unwritten_rows_ || unwritten < steps.begin() + there;
      there = unwritten - steps.begin();
      // A run that begins again also writes its sample of step 0 again.
      const std::int64_t first_again = last_step > 0 ? last_step + 1 : 0;
      const auto end = std::find_if(steps.begin(), unwritten, [&](auto step) { return step >= first_again; });
      rows_[table] = end - steps.begin();
      if (is_steps) rows_["comm"] = rows_[table];
      loses_rows_ = loses_rows_ || rows_[table] < there;
    }
  }
  /// Returns nothing for anything that is not a table of rows.
  std::optional<std::int64_t> of(const std::string& table) const {
    const auto found = rows_.find(table);
    return found == rows_.end() ? std::nullopt : std::optional(found->second);
  }
  bool loses_rows() const { return loses_rows_; }
  bool has_unwritten_rows() const { return has_unwritten_rows_; }

 private:
  std::map<std::string, std::int64_t> rows_;
  bool loses_rows_ = false, has_unwritten_rows_ = false;
};

void copy_attributes(hid_t from, hid_t to) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  hdf5_check(H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
             fmt::format("cannot list attributes of {}", hdf5_name(from)));
  for (const std::string& name : names) {
    const Hdf5Attribute attribute(hdf5_check_id(H5Aopen(from, name.c_str(), H5P_DEFAULT), "cannot read " + name));
    const Hdf5Type type(hdf5_check_id(H5Aget_type(attribute.id()), "cannot read " + name));
    const H5T_class_t kind = H5Tget_class(type.id());
    if (kind == H5T_INTEGER) {
      hdf5_write_attribute(to, name, hdf5_read_attribute<std::int64_t>(from, name));
    } else if (kind == H5T_FLOAT) {
      hdf5_write_attribute(to, name, hdf5_read_attribute<double>(from, name));
    } else {
      hdf5_write_attribute(to, name, std::string_view(hdf5_read_attribute<std::string>(from, name)));
    }
  }
}

template <class T>
void copy_dataset(hid_t from, hid_t to, const std::string& name, std::optional<std::int64_t> rows) {
  const auto source = Hdf5Array<T>::open(from, name);
  hdf5_require_room(from, name, source.elements());
  const std::int64_t width = source.shape().size() == 2 ? source.shape()[1] : 0;
  std::vector<T> values(static_cast<std::size_t>(rows ? *rows * std::max<std::int64_t>(1, width) : source.elements()));
  source.read(0, values);
  if (rows) {
    Hdf5Series<T>::create(to, name, width).append(values);
  } else {
    hdf5_write<T>(to, name, values, source.shape());
  }
}

/// Copies a text with its attributes: /schedule.
void copy_text(hid_t from, hid_t to, const std::string& name) {
  const Hdf5Dataset text = hdf5_write_text(to, name, hdf5_read_strings(from, name).at(0));
  copy_attributes(open_hdf5_dataset(from, name).id(), text.id());
}

/// Copies the first rows of texts of fixed length: /samples/text.
void copy_text_rows(hid_t from, hid_t to, const std::string& name, std::int64_t rows) {
  const Hdf5Dataset source = open_hdf5_dataset(from, name);
  const Hdf5Type type(hdf5_check_id(H5Dget_type(source.id()), fmt::format("cannot read {}", name)));
  const std::size_t bytes = H5Tget_size(type.id());
  const std::int64_t all_bytes = rows_of(from, name) * static_cast<std::int64_t>(bytes);
  hdf5_require_room(from, name, all_bytes);
  std::string all(static_cast<std::size_t>(all_bytes), '\0');
  hdf5_check(H5Dread(source.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()),
             fmt::format("cannot read {}", name));
  Hdf5Texts texts = Hdf5Texts::create(to, name, static_cast<std::int64_t>(bytes));
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) texts.append(all.substr(row * bytes, bytes));
}

/// HDF5's own H5Ocopy (1.10.8) crashes on groups of many attributes in a file that was not closed.
void copy_group(hid_t from, hid_t to, std::optional<std::int64_t> rows, const KeptRows* tables) {
  copy_attributes(from, to);
  for (const std::string& name : hdf5_list(from)) {
    const auto rows_here = tables != nullptr ? tables->of(name) : rows;
    if (is_group(from, name)) {
      copy_group(hdf5_open_group(from, name).id(), hdf5_create_group(to, name).id(), rows_here, nullptr);
    } else if (const H5T_class_t kind = class_of(open_hdf5_dataset(from, name)); kind == H5T_STRING) {
      if (rows_here)
        copy_text_rows(from, to, name, *rows_here);
      else
        copy_text(from, to, name);
    } else if (kind == H5T_INTEGER) {
      copy_dataset<std::int64_t>(from, to, name, rows_here);
    } else {
      copy_dataset<double>(from, to, name, rows_here);
    }
  }
}

/// Returns FILE.before-step-N, or that name followed by a number that is not taken.
std::filesystem::path name_for_replaced(const std::filesystem::path& path, std::int64_t step) {
  const std::string name = fmt::format("{}.before-step-{}", path.string(), step);
  std::error_code unseen;
  for (int n = 0;; ++n) {
    std::filesystem::path candidate = n == 0 ? name : fmt::format("{}.{}", name, n);
    if (!std::filesystem::exists(candidate, unseen)) return candidate;
  }
}

void end_file_after(const std::filesystem::path& path, std::int64_t step) {
  check_hdf5_heaps(path);
  bool is_closed = true;
  Hdf5File file;
  try {
    file = Hdf5File::open(path);
  } catch (const IoError&) {
    is_closed = false;
    file = Hdf5File::open(path, true);
  }
  const KeptRows kept(file, step);
  if (is_closed && !kept.loses_rows() && !kept.has_unwritten_rows()) return;
  ReplacedFile output(path);
  Hdf5File shorter = Hdf5File::create(output.beside(), Hdf5File::Create::truncate);
  copy_group(file.id(), shorter.id(), std::nullopt, &kept);
  shorter.close();
  file.close();
  if (kept.loses_rows()) copy_durably(path, name_for_replaced(path, step + 1));
  output.finish();
}

}  // namespace

std::vector<std::int64_t> metrics_files(const std::filesystem::path& folder) {
  std::vector<std::int64_t> numbers;
  std::error_code error;
  for (const std::string& name : names_in(folder, error)) {
    if (const std::int64_t number = number_of(name); number >= 0) numbers.push_back(number);
  }
  if (error) throw IoError("cannot read folder {} ({})", folder.string(), error.message());
  std::ranges::sort(numbers);
  return numbers;
}

std::filesystem::path metrics_path(const std::filesystem::path& folder, std::int64_t number) {
  return folder / (number == 0 ? std::string("metrics.h5") : fmt::format("metrics.{}.h5", number));
}

std::optional<std::int64_t> last_checkpoint_in(const std::filesystem::path& metrics) try {
  check_hdf5_heaps(metrics);
  const Hdf5File file = Hdf5File::open(metrics, true);
  if (!hdf5_has(file.id(), "checkpoints")) return std::nullopt;
  const auto steps = hdf5_read<std::int64_t>(hdf5_open_group(file.id(), "checkpoints").id(), "step");
  return steps.empty() || steps.back() < 0 ? std::nullopt : std::optional(steps.back());
} catch (const std::exception&) {  // a damaged file may claim any lengths
  return std::nullopt;
}

std::vector<std::string> end_history_after(const std::filesystem::path& folder, std::int64_t step) {
  std::vector<std::string> failures;
  for (const std::int64_t number : metrics_files(folder)) {
    try {
      end_file_after(metrics_path(folder, number), step);
    } catch (const std::exception& error) {  // a damaged file may claim any lengths
      failures.push_back(fmt::format("rows after step {} stay in {}, and are written again ({})", step,
                                     metrics_path(folder, number).string(), error.what()));
    }
  }
  return failures;
}

}  // namespace tessera
