#include "sweep/rows.hpp"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "sweep/launcher.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/config/fine_tuning.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLongestName = 200;  // file names end at 255
/// Names in a sweep's folder that rows cannot have.
constexpr std::string_view kTaken[] = {"sweep.json", "sweep.ini", "base.ini",  "lock",       "owner.json", "data",
                                       "slurm",      "plots",     "table.csv", "table.json", "report.html"};

std::string folder_name(const std::string& text) {
  std::string name = text;
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128 || (std::isalnum(byte) == 0 && std::string_view("._+-").find(c) == std::string_view::npos)) c = '_';
  }
  return name;
}

void require_name(const SweepRow& row) {
  const bool taken = std::ranges::find(kTaken, row.name) != std::end(kTaken);
  if (row.name.empty() || row.name.starts_with('.') || row.name.size() > kLongestName || taken) {
    throw refusal("row '{}' cannot have this name", row.name)
        .because("a folder is named after it")
        .use("1 to {} characters without a dot in front, but none of {}", kLongestName, fmt::join(kTaken, ", "))
        .hint("Name the row by [sweep.row NAME]");
  }
}

/// Calls `use` and names the row in its exceptions.
template <class Use>
auto in_row(const std::string& name, const Use& use) try {
  return use();
} catch (const UsageError& error) {
  throw UsageError("row {}: {}", name, error.what());
}

/// Throws the errors of train that depend on the number of ranks.
void require_ranks(const SweepRow& row) {
  if (row.trains()) validate_for_world(row.options, row.ranks, planned_ranks_per_node(row.options, row.ranks));
}

/// Throws the errors of train that are known without data.
void require_possible(const SweepRow& row) {
  validate(row.options);
  if (!row.trains()) {
    command_words(row, "mpiexec", {}, {});
    return;
  }
  require_ranks(row);
  require_named_data(row.options, false);
  resolve_architecture(row.options.model);
}

/// One choice for every varied option.
struct Draw {
  std::vector<std::size_t> index;

  bool next(const std::vector<Varied>& vary) {
    for (std::size_t i = index.size(); i-- > 0;) {
      if (++index[i] < vary[i].values.size()) return true;
      index[i] = 0;
    }
    return false;
  }
};

/// Applies a row's settings to the start of every row. Options of the base that the row then does not use get their
/// defaults, so that one base serves rows of several strategies.
Options row_options(const SweepFile& file, const std::vector<Setting>& settings) {
  Options options = with_settings(file.common, settings);
  drop_unused(options,
              [&](const std::string& name) { return !options.is_given(name) && options.repeated.contains(name); });
  return options;
}

SweepRow product_row(const SweepFile& file, const Draw& draw) {
  std::set<std::string> left_out;
  for (;;) {
    SweepRow row;
    std::vector<Setting> settings;
    for (std::size_t i = 0; i < file.vary.size(); ++i) {
      const Varied& varied = file.vary[i];
      if (left_out.contains(varied.name)) continue;
      const std::string& value = varied.values[draw.index[i]];
      row.name += (row.name.empty() ? "" : "-") + folder_name(value.empty() ? "empty" : value);
      if (varied.name == "ranks") {
        row.ranks = read_ranks(value, varied.place);
      } else {
        settings.push_back({varied.name, value, varied.place});
      }
    }
    settings.insert(settings.end(), file.arguments.begin(), file.arguments.end());
    row.options = row_options(file, settings);
    const std::size_t before = left_out.size();
    for (const UnusedOption& unused : unused_options(row.options)) {
      if (std::ranges::find(file.vary, unused.name, &Varied::name) != file.vary.end()) left_out.insert(unused.name);
    }
    if (left_out.size() == before) return row;
  }
}

/// Returns the first row that does the same; the end if there is none.
auto equal_row(const std::vector<SweepRow>& rows, const SweepRow& row) {
  return std::ranges::find_if(rows, [&](const SweepRow& other) {
    return other.ranks == row.ranks && other.command == row.command && other.options == row.options;
  });
}

void add_product(const SweepFile& file, std::vector<SweepRow>& rows) {
  if (file.vary.empty()) return;
  Draw draw{std::vector<std::size_t>(file.vary.size(), 0)};
  do {
    const SweepRow row = product_row(file, draw);
    if (equal_row(rows, row) == rows.end()) rows.push_back(row);
  } while (draw.next(file.vary));
}

SweepRow named_row(const SweepFile& file, const NamedRow& named) {
  SweepRow row;
  row.name = folder_name(named.name);
  row.ranks = named.ranks;
  row.command = named.command;
  std::vector<Setting> settings = named.settings;
  settings.insert(settings.end(), file.arguments.begin(), file.arguments.end());
  row.options = row_options(file, settings);
  return row;
}

/// Leaves out rows that cannot exist on the ranks that sweep.ranks gives them, with a note for each reason. Throws
/// UsageError if no row is left.
void leave_out_impossible(std::vector<SweepRow>& rows, SweepFile& file) {
  std::map<std::string, std::vector<std::string>> without;  // rows by reason
  std::erase_if(rows, [&](const SweepRow& row) {
    try {
      require_ranks(row);
      return false;
    } catch (const UsageError& error) {
      without[error.what()].push_back(row.name);
      return true;
    }
  });
  for (const auto& [why, names] : without)
    file.notes.push_back(fmt::format("{} cannot run on these ranks: {}", fmt::join(names, ", "), why));
  if (rows.empty())
    throw UsageError("sweep.ranks = {} leaves no row: {}", fmt::join(file.sweep.ranks, ","), file.notes.front());
}

bool is_chosen(const SweepRow& row, const std::string& only) {
  return only.empty() || ::fnmatch(only.c_str(), row.name.c_str(), 0) == 0;
}

/// Returns "memory-1, memory-2, ...", for a message.
std::string names_of(const std::vector<SweepRow>& rows) {
  return fmt::format("{}", fmt::join(rows | std::views::transform(&SweepRow::name), ", "));
}

/// Returns the name of the row that the baseline names, also without a number of ranks that all rows have; empty if
/// there is none.
std::string baseline_row(const SweepFile& file, const std::set<std::string>& names) {
  const std::string name = folder_name(file.sweep.baseline);
  const auto axis = std::ranges::find(file.vary, "ranks", &Varied::name);
  std::vector<std::string> spellings = {name};
  if (axis != file.vary.end() && axis->values.size() == 1) {
    const std::string ranks = folder_name(axis->values[0]);
    spellings.insert(spellings.end(), {ranks + "-" + name, name + "-" + ranks});
  }
  const auto found = std::ranges::find_if(spellings, [&](const std::string& one) { return names.contains(one); });
  return found == spellings.end() ? "" : *found;
}

/// Lets rows that read text share a cache, which would otherwise be next to each row's own run.
void share_cache(const SweepFile& file, Options& options) {
  DataOptions& data = options.data;
  const auto has_text = [](const TrainingSource& one) {
    return one.source != "synthetic" && !one.source.ends_with(".bin");
  };
  const bool reads_text = std::ranges::any_of(training_sources(data.source), has_text);
  if (!reads_text || !data.cache.empty() || !data.output.empty() || !variable("TESSERA_CACHE").empty()) return;
  data.cache = (std::filesystem::path(file.sweep.dir).parent_path() / "cache").string();
}

}  // namespace

std::vector<SweepRow> rows_of(SweepFile& file) {
  std::vector<SweepRow> rows;
  add_product(file, rows);
  for (const NamedRow& named : file.rows) {
    const SweepRow row = named_row(file, named);
    const auto same = file.sweep.ranks.empty() ? rows.end() : equal_row(rows, row);
    if (same == rows.end()) {
      rows.push_back(row);
    } else if (row.name != same->name) {
      file.notes.push_back(fmt::format("row {} is left out, because {} is the same.", row.name, same->name));
    }
  }
  if (!file.sweep.ranks.empty()) leave_out_impossible(rows, file);
  std::set<std::string> names;
  for (SweepRow& row : rows) {
    share_cache(file, row.options);
    require_name(row);
    if (!names.insert(row.name).second)
      throw refusal("{}: two rows are called '{}'", file.path.string(), row.name)
          .hint("Name one of them by [sweep.row NAME]");
    if (is_chosen(row, file.sweep.only)) in_row(row.name, [&] { require_possible(row); });
  }
  std::string& baseline = file.sweep.baseline;
  if (baseline.empty()) return rows;
  if (const std::string row = baseline_row(file, names); !row.empty()) {
    baseline = row;
  } else if (!file.sweep.ranks.empty()) {
    file.notes.push_back(fmt::format("The baseline {} is not a row on these ranks. The first row takes its place.",
                                     std::exchange(baseline, "")));
  } else {
    throw refusal("sweep.baseline = '{}' is not a row", baseline).use("one of {}", names_of(rows));
  }
  return rows;
}

std::vector<SweepRow> chosen_rows(const std::vector<SweepRow>& rows, const std::string& only) {
  std::vector<SweepRow> chosen;
  std::ranges::copy_if(rows, std::back_inserter(chosen), [&](const SweepRow& row) { return is_chosen(row, only); });
  if (chosen.empty())
    throw refusal("sweep.only = '{}' is not the name of a row", only).use("one of {}", names_of(rows));
  return chosen;
}

}  // namespace tessera
