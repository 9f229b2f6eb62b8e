#include "tessera/config/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "config/option_table.hpp"
#include "tessera/base/format.hpp"
#include "tessera/config/readers.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

namespace {

const Options& defaults() {
  static const Options options;
  return options;
}

std::string default_text(const OptionEntry& row) {
  const auto value = row.get(defaults());
  return value.empty() ? "empty" : value;
}

constexpr auto kEvery = [](std::string_view) { return true; };

/// Calls begin(section) before the first row of each section, then row(entry), for the rows that `is_shown` by name.
template <class Shown, class Begin, class Row>
void walk(const Shown& is_shown, Begin begin, Row row) {
  std::string_view section;
  for (const auto& entry : option_table()) {
    if (!is_shown(entry.name)) continue;
    if (entry.section() != section) begin(section = entry.section());
    row(entry);
  }
}

std::string ini_text(const Options& options, const std::function<bool(std::string_view)>& is_shown) {
  const auto unused = unused_options(options);
  std::string out;
  walk(
      is_shown, [&](std::string_view section) { out += fmt::format("\n[{}]\n", section); },
      [&](const OptionEntry& row) {
        const auto found = std::ranges::find(unused, row.name, &UnusedOption::name);
        if (found != unused.end()) {
          out += fmt::format("# {}: not used, {}\n", row.key(), found->reason);
        } else {
          out += fmt::format("{} = {}\n", row.key(), ini_value(row.get(options)));
        }
      });
  return out;
}

}  // namespace

std::vector<OptionValue> flat_options(const Options& options) {
  std::vector<OptionValue> out;
  for (const auto& row : option_table()) out.push_back({row.name, row.get(options), options.is_given(row.name)});
  return out;
}

std::string value_of(const Options& options, std::string_view name) { return find_option(name)->get(options); }

std::vector<std::string> train_arguments(const Options& options) {
  std::vector<std::string> words;
  const std::vector<OptionValue> defaults = flat_options(Options{});
  const std::vector<OptionValue> all = flat_options(options);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool asked = all[i].given || all[i].value != defaults[i].value;
    const bool of_run = read_option(Readers::train, all[i].name);
    if (asked && of_run && has_effect(options, all[i].name)) words.push_back("--" + all[i].name + "=" + all[i].value);
  }
  return words;
}

std::string help_text(const std::function<bool(std::string_view)>& is_shown) {
  std::string out;
  walk(
      is_shown, [&](std::string_view section) { out += fmt::format("\n[{}] {}\n", section, section_title(section)); },
      [&](const OptionEntry& row) {
        out += fmt::format("  --{:<28} {}\n  {:<30} {}; default: {}\n", row.name, row.help, "", row.allowed,
                           default_text(row));
      });
  return out;
}

std::string write_ini(const Options& options) { return ini_text(options, kEvery); }

std::optional<std::int64_t> ranks_of_run(const std::filesystem::path& config) {
  std::ifstream file(config);
  std::string line;
  std::getline(file, line);
  const std::string start = std::string(kRunConfigHeader) + ", on ";
  if (!line.starts_with(start)) return std::nullopt;
  const auto ranks = read_count(line.substr(start.size(), line.find(' ', start.size()) - start.size()));
  return ranks && *ranks > 0 ? ranks : std::nullopt;
}

std::string run_config(const Options& options, std::int64_t ranks) {
  const std::string launcher = ranks == 1 ? "" : fmt::format("mpiexec -n {} ", ranks);
  const char* const others = options.train.global_batch > 0
                                 ? "# So do other numbers of ranks whose micro-batches make train.global_batch.\n"
                                 : "# Other numbers of ranks repeat it if train.accumulation keeps ranks x "
                                   "accumulation x micro_batch.\n";
  return fmt::format("{}, on {}. To repeat it: {}tessera train THIS_FILE --run.dir=NEW_FOLDER\n{}", kRunConfigHeader,
                     counted(ranks, "rank"), launcher, others) +
         ini_text(options, [](std::string_view name) { return read_option(Readers::train, name); });
}

}  // namespace tessera
