#include "sweep/sweep_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tessera/base/closest.hpp"
#include "tessera/base/decimal.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/readers.hpp"

namespace tessera {

namespace {

constexpr std::string_view kVary = "sweep.vary", kRow = "sweep.row";
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

bool is_of_sweep(const Setting& setting) { return setting.name.starts_with("sweep."); }

/// Refuses options that a row cannot set.
void require_of_rows(const Setting& setting) {
  if (setting.name == "run.dir" || setting.name == "run.name") {
    throw refusal("{}: {} has no effect", setting.place, setting.name)
        .because("the runs of a sweep lie in the folders of its rows")
        .hint("Set sweep.dir");
  }
}

/// Checks an option that a row may set, with an allowed value. UsageError, with the most similar known name.
void require_option(const Setting& setting) {
  Options scratch;
  apply(setting, scratch);
  if (is_of_sweep(setting) || !read_option(Readers::train, setting.name)) {
    throw refusal("{}: {} has no effect", setting.place, setting.name)
        .because("tessera train does not read it")
        .hint("Leave it out");
  }
  require_of_rows(setting);
}

/// [sweep.row NAME]: its own keys, and options.
struct RowReader {
  NamedRow& row;
  std::string kind, kind_place;

  void take(const Setting& setting) {
    const std::string key = setting.key();
    if (key == "ranks") {
      row.ranks = read_ranks(setting.value, setting.place);
    } else if (key == "kind") {
      kind = setting.value;
      kind_place = setting.place;
      if (kind != "train" && kind != "command")
        throw refusal("{}: kind = '{}' is not an allowed value", setting.place, kind).use("train or command");
    } else if (key == "command") {
      row.command = setting.value;
    } else if (key.find('.') == std::string::npos) {
      throw refusal("{}: '{}' is not a key of a row", setting.place, key)
          .use("ranks, kind, command, or an option as section.key");
    } else {
      row.settings.push_back({key, setting.value, setting.place});
      require_option(row.settings.back());
    }
  }

  void check() const {
    if (kind == "command" && row.command.empty())
      throw refusal("{}: kind = command needs command = PROGRAM {{ranks}} {{run}} {{tokens}}", kind_place);
    if (kind != "command" && !row.command.empty())
      throw refusal("{}: command = ... stands without kind = command", row.place).hint("Add it");
  }
};

void read_vary(const IniFile& ini, SweepFile& out) {
  for (const Setting& setting : ini.settings) {
    if (setting.section != kVary) continue;
    const Varied varied{setting.key(), setting.place, setting.list};
    constexpr std::array<std::string_view, 1> not_an_option = {"ranks"};
    if (varied.name != "ranks" && !closest(varied.name, not_an_option).empty())
      throw refusal("{}: {} cannot be varied: did you mean ranks?", varied.place, in_quotes(varied.name));
    for (const std::string& value : varied.values) {
      if (varied.name == "ranks") {
        read_ranks(value, varied.place);
      } else {
        require_option({varied.name, value, varied.place});
      }
    }
    out.vary.push_back(varied);
  }
}

void read_rows(const IniFile& ini, SweepFile& out) {
  for (const IniSection& section : ini.sections) {
    if (!section.name.starts_with(std::string(kRow) + " ")) continue;
    const std::string name = section.name.substr(kRow.size() + 1);
    if (const auto first = std::ranges::find(out.rows, name, &NamedRow::name); first != out.rows.end())
      throw refusal("{}: [{}] stands twice, first in {}", section.place, section.name, first->place)
          .hint("Give each row a name of its own");
    NamedRow& row = out.rows.emplace_back();
    row.name = name;
    row.place = section.place;
    RowReader reader{row, "train", row.place};
    for (const Setting& setting : ini.settings) {
      if (setting.section == section.name) reader.take(setting);
    }
    reader.check();
  }
}

/// Refuses sections that look like those of a sweep but are not.
void require_known_sections(const IniFile& ini) {
  for (const IniSection& section : ini.sections) {
    if (section.name == kRow) throw refusal("{}: a row has no name", section.place).use("[sweep.row NAME]");
    const bool known = section.name == kVary || section.name.starts_with(std::string(kRow) + " ");
    if (section.name.starts_with("sweep.") && !known) {
      throw refusal("{}: [{}] is an unknown section", section.place, section.name)
          .use("[sweep], [sweep.vary], [sweep.row NAME], or a section of options");
    }
  }
}

/// Reads the base that a file names; its rows come after the file's own.
Options base_of(SweepFile& file, const IniFile& ini) {
  if (file.sweep.base.empty()) return {};
  const std::filesystem::path path = file.path.parent_path() / file.sweep.base;
  if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) {
    std::string place = "command line";
    for (const Setting& setting : ini.settings) {
      if (setting.name == "sweep.base" && setting.value == file.sweep.base) place = setting.place;
    }
    throw refusal("{}: sweep.base = '{}' is not a file next to the sweep's", place, file.sweep.base)
        .use("the path of an INI file with options, relative to the sweep's file");
  }
  file.base_text = read_ini_text(path);
  read_rows(read_ini(file.base_text, path.string()), file);
  Options base = options_of(file.base_text, path.string(), std::string(kRow) + " ");
  base.sweep = {};
  // A sweep that names a base asks for its own file's options, because the base only repeats some.
  base.repeated.merge(base.given);
  base.given.clear();
  return base;
}

/// Replaces a list with the command line's value.
void resolve_varied(SweepFile& file) {
  for (Varied& varied : file.vary) {
    const auto said = std::ranges::find(file.arguments, varied.name, &Setting::name);
    if (said != file.arguments.end()) varied.values = {said->value};
  }
}

constexpr char kNumber = '\n';  // stands for the number of ranks in a name; cannot occur in a line of a file

/// Returns the row's name, with its number of ranks replaced if it stands at the beginning or at the end.
std::string pattern_of(const NamedRow& row) {
  const std::string number = std::to_string(row.ranks);
  if (row.name.starts_with(number + "-")) return kNumber + row.name.substr(number.size());
  if (row.name.ends_with("-" + number)) return row.name.substr(0, row.name.size() - number.size()) + kNumber;
  return row.name;
}

bool is_same_but_for_ranks(const NamedRow& a, const NamedRow& b) {
  return a.command == b.command && std::ranges::equal(a.settings, b.settings, [](const Setting& x, const Setting& y) {
           return x.name == y.name && x.value == y.value;
         });
}

/// Adds a row for each of sweep.ranks in place of `like`, one of the rows in `family`, which all have the same pattern.
void add_rows_like(const NamedRow& like, const std::vector<NamedRow>& family, std::string pattern, SweepFile& file) {
  // At the end it may be any number, unless other rows have other ranks there.
  if (pattern.ends_with(kNumber) && family.size() == 1) pattern = like.name;
  const bool alike = std::ranges::all_of(family, [&](const NamedRow& row) { return is_same_but_for_ranks(row, like); });
  for (const std::int64_t ranks : file.sweep.ranks) {
    const auto own = std::ranges::find(family, ranks, &NamedRow::ranks);
    NamedRow row = own == family.end() ? like : *own;
    const std::string number = std::to_string(row.ranks = read_ranks(std::to_string(ranks), "sweep.ranks"));
    if (const std::size_t at = pattern.find(kNumber); at != std::string::npos) {
      row.name = pattern.substr(0, at) + number + pattern.substr(at + 1);
    } else if (file.sweep.ranks.size() > 1) {
      row.name = number + "-" + row.name;
    }
    if (own != family.end() || alike) {
      file.rows.push_back(row);
    } else {
      file.notes.push_back(
          fmt::format("row {0} is left out, because rows like {1} differ in more than their ranks. "
                      "To have it, add [sweep.row {0}] to the file.",
                      row.name, like.name));
    }
  }
}

void replace_ranks(SweepFile& file) {
  if (file.sweep.ranks.empty()) return;
  Varied axis{"ranks", "sweep.ranks", {}};
  for (const std::int64_t ranks : file.sweep.ranks) axis.values.push_back(std::to_string(ranks));
  const auto own_axis = std::ranges::find(file.vary, "ranks", &Varied::name);
  if (own_axis != file.vary.end()) {
    *own_axis = axis;
  } else if (!file.vary.empty()) {
    file.vary.insert(file.vary.begin(), axis);
  }
  std::map<std::string, std::vector<NamedRow>> families;
  for (const NamedRow& row : file.rows) families[pattern_of(row)].push_back(row);
  for (const NamedRow& row : std::exchange(file.rows, {})) {
    const std::vector<NamedRow>& family = families.at(pattern_of(row));
    if (row.name == family.front().name) add_rows_like(row, family, pattern_of(row), file);
  }
}

}  // namespace

std::int64_t read_ranks(const std::string& text, const std::string& place) {
  const std::int64_t ranks = whole_number(text).value_or(0);
  if (ranks >= 1 && ranks <= kMostRanks) return ranks;
  throw refusal("{}: ranks = '{}' is not an allowed value", place, text).use("a whole number, 1 to {}", kMostRanks);
}

SweepFile read_sweep_file(const std::filesystem::path& path, const std::vector<Setting>& arguments) {
  SweepFile out;
  out.path = path;
  out.text = read_ini_text(path);
  const IniFile ini = read_ini(out.text, path.string(), kVary);
  require_known_sections(ini);
  Options own;
  std::vector<Setting> common;
  for (const Setting& setting : ini.settings) {
    if (setting.section == "sweep") {
      apply(setting, own);
    } else if (setting.section != kVary && !setting.section.starts_with(kRow)) {
      require_of_rows(setting);
      common.push_back(setting);
    }
  }
  for (const Setting& setting : arguments) {
    if (is_of_sweep(setting)) {
      apply(setting, own);
      out.sweep_arguments.push_back(setting);
    } else {
      require_of_rows(setting);
      out.arguments.push_back(setting);
    }
  }
  out.sweep = own.sweep;
  out.given = own.given;
  if (out.sweep.name.empty()) out.sweep.name = path.stem().string();
  if (out.sweep.name.find('/') != std::string::npos || out.sweep.name.starts_with('.'))
    throw refuse("sweep.name", in_quotes(out.sweep.name))
        .because("it names the folder runs/NAME")
        .use("a name without / and without a dot in front");
  if (out.sweep.dir.empty()) out.sweep.dir = (std::filesystem::path("runs") / out.sweep.name).string();
  read_vary(ini, out);
  read_rows(ini, out);
  out.common = with_settings(base_of(out, ini), common);
  resolve_varied(out);
  if (out.vary.empty() && out.rows.empty())
    throw refusal("{} has no row", path.string()).hint("Add [sweep.vary] with option = a, b, or [sweep.row NAME]");
  replace_ranks(out);
  return out;
}

}  // namespace tessera
