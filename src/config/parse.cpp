#include <fstream>
#include <iterator>
#include <tuple>

#include "config/option_table.hpp"
#include "config/settings.hpp"
#include "config/value_text.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/options.hpp"
#include "tessera/config/validate.hpp"

namespace tessera {

namespace {

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw UsageError("{}: no such file: name an INI file with options", file.string());
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.good() && !stream.eof()) throw UsageError("{}: cannot be read: check its permissions", file.string());
  return text;
}

Options resolved(const std::vector<Setting>& file, const std::vector<Setting>& arguments) {
  Options options;
  for (const auto& setting : file) apply(setting, options);
  for (const auto& setting : arguments) apply(setting, options);
  validate(options);
  return options;
}

/// The settings among words that must all be options.
std::vector<Setting> settings_only(const std::vector<std::string>& words) {
  auto arguments = read_arguments(words);
  if (!arguments.positional.empty()) {
    throw UsageError("{} is not an option (command line): write --section.key=value",
                     in_quotes(arguments.positional[0]));
  }
  return std::move(arguments.settings);
}

}  // namespace

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      out.help = true;
    } else if (word == "--version") {
      out.version = true;
    } else if (!word.starts_with("--")) {
      out.positional.push_back(word);
    } else if (const auto equals = word.find('='); equals != std::string::npos) {
      out.settings.push_back({word.substr(2, equals - 2), word.substr(equals + 1), "command line"});
    } else {
      const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
      const Setting setting{word.substr(2), has_value ? words[i + 1] : "", "command line"};
      if (!has_value && find_option(setting.name) != nullptr) {
        throw UsageError("{} has no value (command line): {}", setting.name, find_option(setting.name)->allowed);
      }
      out.settings.push_back(setting);
      if (has_value) ++i;
    }
  }
  return out;
}

void apply(const Setting& setting, Options& options) {
  const OptionEntry* option = find_option(setting.name);
  if (option == nullptr) {
    const auto near = closest_option(setting.name);
    throw UsageError("{}: unknown option {} = {} (names are never abbreviated): {}", setting.place,
                     in_quotes(setting.name), in_quotes(setting.value),
                     near.empty() ? std::string("see --help") : fmt::format("did you mean {}?", near));
  }
  if (!option->set(options, setting.value)) {
    throw UsageError("{}: {} = {} (not an allowed value): {}", setting.place, setting.name, in_quotes(setting.value),
                     option->allowed);
  }
  options.given.insert(setting.name);
}

Options resolve(const std::filesystem::path& file, const std::vector<Setting>& arguments) {
  if (file.empty()) return resolved({}, arguments);
  return resolved(read_ini(read_file(file), file.string()), arguments);
}

Options parse(const std::filesystem::path& file, const std::vector<std::string>& arguments) {
  return resolve(file, settings_only(arguments));
}

Options parse_text(std::string_view ini, const std::string& file_name, const std::vector<std::string>& arguments) {
  return resolved(read_ini(ini, file_name), settings_only(arguments));
}

Options parse_arguments(const std::vector<std::string>& arguments) { return resolved({}, settings_only(arguments)); }

bool Options::operator==(const Options& other) const {
  const auto all = [](const Options& o) {
    return std::tie(o.run, o.model, o.data, o.train, o.optim, o.shard, o.precision, o.memory, o.grid, o.comm,
                    o.checkpoint, o.metrics, o.plan, o.sweep, o.bench);
  };
  return all(*this) == all(other);
}

std::filesystem::path run_folder(const Options& options) {
  if (!options.run.dir.empty()) return options.run.dir;
  return std::filesystem::path("runs") / options.run.name;
}

}  // namespace tessera
