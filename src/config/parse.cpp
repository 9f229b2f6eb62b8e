#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <fstream>
#include <utility>

#include "config/option_table.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/hub_name.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/options.hpp"
#include "tessera/config/removed_options.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/validate.hpp"

namespace tessera {

namespace po = boost::program_options;

namespace {

/// Of options that exclude each other, keeps the user's if the other only repeats a run.
void drop_superseded(Options& options) {
  static const Options defaults;
  constexpr std::pair<std::string_view, std::string_view> pairs[] = {{"train.global_batch", "train.accumulation"},
                                                                     {"train.epochs", "train.steps"},
                                                                     {"train.tokens", "train.steps"},
                                                                     {"train.tokens", "train.epochs"}};
  const auto drop = [&](std::string_view given, std::string_view other) {
    if (!options.is_given(given) || options.is_given(other)) return;
    find_option(other)->set(options, find_option(other)->get(defaults));
  };
  for (const auto& [one, other] : pairs) {
    drop(one, other);
    drop(other, one);
  }
}

Options resolved(Options options, const std::vector<Setting>& arguments) {
  options = with_settings(std::move(options), arguments);
  validate(options);
  return options;
}

/// Returns the limit that a number is beyond, whatever its option allows; empty for anything else.
std::string_view limit_beyond(std::string_view text, bool is_whole) {
  double number = 0;
  const auto error = std::from_chars(text.data(), text.data() + text.size(), number).ec;
  if (is_whole && error == std::errc{} && number >= 0x1p63) return ", at most 9223372036854775807";
  return error == std::errc::result_out_of_range ? ", in size 0 or 2.3e-308 to 1.7e308" : "";
}

/// Replaces ~ at the beginning by the home folder. No shell does that in a file, nor after "--run.dir=", and nobody
/// wants a folder named ~.
std::string with_home(const Setting& setting) {
  const bool is_home = setting.value == "~" || setting.value.starts_with("~/");
  if (!is_home || setting.name == "generate.prompt") return setting.value;
  const std::string home = variable("HOME");
  if (home.empty())
    throw refusal("{}: {} = {} begins with ~, but $HOME is not set", setting.place, setting.name, setting.value)
        .hint("Write the whole path");
  return home + setting.value.substr(1);
}

Refusal not_an_option(std::string_view word) {
  return refusal("command line: {} is not an option", in_quotes(word)).hint("Write --section.key=value");
}

bool is_known(std::string_view name) { return find_option(name) != nullptr || find_removed(name) != nullptr; }

Refusal no_value(const std::string& name) {
  if (const RemovedOption* removed = find_removed(name))
    return refusal("command line: {} has no value", name).hint("{}", removed->instead);
  return refusal("command line: {} has no value", name).hint("Allowed values: {}", find_option(name)->allowed);
}

/// What other programs have an option for, and Tessera has not.
constexpr std::pair<std::string_view, std::string_view> kNotOptions[] = {
    {"peft", "Adapters are options of lora: lora.rank, lora.from"},
    {"wandb", "tessera-report RUN --wandb makes a run of Weights & Biases from one of Tessera"}};

Refusal unknown_option(const Setting& setting) {
  const auto near = closest_option(setting.name);
  const std::string value = setting.value.empty() ? "" : " = " + in_quotes(setting.value);
  const auto unknown = fmt::format("{}: unknown option {}{}", setting.place, in_quotes(setting.name), value);
  if (setting.section == "sweep.vary" || setting.section.starts_with("sweep.row "))
    return refusal("{}: [{}] is of a sweep", setting.place, setting.section).hint("Give the file to tessera sweep");
  for (const auto& [name, instead] : kNotOptions)
    if (setting.name.find(name) != std::string::npos) return refusal("{}", unknown).hint("{}", instead);
  if (near.empty()) return refusal("{}", unknown).hint("All options are listed by tessera help options");
  return refusal("{}: did you mean {}? Names are never abbreviated", unknown, near);
}

/// Reads what Boost refuses: "--name=", an option with an empty value, and "--name" of one that may be true.
std::vector<po::option> with_short_value(std::vector<std::string>& words) {
  const std::string word = words.front();
  if (!word.starts_with("--")) return {};
  const OptionEntry* option = find_option(word.substr(2));
  const auto is_value = [](const std::string& next) { return next == "true" || next == "false"; };
  const bool is_true = option != nullptr && option->type == typeid(bool) && (words.size() == 1 || !is_value(words[1]));
  if (!is_true && word.find('=') != word.size() - 1) return {};
  words.erase(words.begin());
  return {po::option(is_true ? word.substr(2) : word.substr(2, word.size() - 3), {is_true ? "true" : ""})};
}

/// Splits the words as Boost does. Names are not abbreviated; `apply` refuses unknown ones.
std::vector<po::option> parsed(const std::vector<std::string>& words) try {
  using Style = po::command_line_style::style_t;
  static const po::options_description known = [] {
    po::options_description all;
    for (const auto& row : option_table()) all.add_options()(row.name.c_str(), po::value<std::string>(), "");
    for (const auto& removed : removed_options())
      all.add_options()(std::string(removed.name).c_str(), po::value<std::string>(), "");
    all.add_options()("help", "")("version", "");
    return all;
  }();
  return po::command_line_parser(words)
      .options(known)
      .extra_style_parser(with_short_value)
      .style(Style::allow_long | Style::long_allow_adjacent | Style::long_allow_next)
      .allow_unregistered()
      .run()
      .options;
} catch (const po::error_with_option_name& error) {
  std::string name = error.get_option_name();
  name.erase(0, name.find_first_not_of('-'));
  if (is_known(name)) throw no_value(name);
  throw refusal("command line: {}", error.what()).hint("Write --section.key=value");
}

/// Returns the settings among words that must all be options.
std::vector<Setting> settings_only(const std::vector<std::string>& words) {
  auto arguments = read_arguments(words);
  if (!arguments.positional.empty()) throw not_an_option(arguments.positional[0]);
  return std::move(arguments.settings);
}

/// A model in the place of a file: " (a model is named by --model.preset=NAME: nano, gpt2-124m, ...)".
std::string also_named(const std::filesystem::path& file) {
  const OptionEntry& preset = *find_option("model.preset");
  const bool is_preset = ("|" + preset.allowed + "|").find("|" + file.string() + "|") != std::string::npos;
  if (is_preset) return fmt::format("; the model of this name is --model.preset={}", file.string());
  if (const std::string hint = hub_hint(file); !hint.empty()) return ". " + hint;
  if (file.extension() == ".ini") return "";
  return fmt::format("; a model is named by --model.from=FOLDER, or --model.preset={}", preset.allowed);
}

/// Notes an option of earlier versions at its default; refuses another value.
void drop(const RemovedOption& removed, const Setting& setting, Options& options) {
  if (setting.value != removed.by_default) {
    throw refusal("{}: {} = {} does not work any more", setting.place, setting.name, in_quotes(setting.value))
        .hint("{}", removed.instead);
  }
  options.dropped.insert(fmt::format("{} = {}", setting.name, setting.value));
}

}  // namespace

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments out;
  for (const po::option& option : parsed(words)) {
    const std::string value = option.value.empty() ? "" : option.value[0];
    const bool is_word = option.position_key >= 0;
    if (option.string_key == "help" || (is_word && value == "-h")) {
      out.help = true;
    } else if (option.string_key == "version") {
      out.version = true;
    } else if (is_word) {
      out.positional.push_back(value);
    } else {
      // The next word is a value, unless it looks like an option.
      if (option.original_tokens.size() > 1 && value.starts_with("--")) throw no_value(option.string_key);
      out.settings.push_back({option.string_key, value, "command line"});
    }
  }
  if (out.help || out.version) return out;
  // Checked before a word that follows is taken for a file.
  for (const Setting& setting : out.settings)
    if (!is_known(setting.name)) throw unknown_option(setting);
  for (const auto& word : out.positional)
    if (word.starts_with('-')) throw not_an_option(word);
  return out;
}

void apply(const Setting& setting, Options& options) {
  if (const RemovedOption* removed = find_removed(setting.name)) return drop(*removed, setting, options);
  const OptionEntry* option = find_option(setting.name);
  if (option == nullptr) throw unknown_option(setting);
  if (!option->set(options, with_home(setting))) {
    throw refusal("{}: {} = {} is not an allowed value", setting.place, setting.name, in_quotes(setting.value))
        .hint("Allowed values: {}{}", option->allowed,
              limit_beyond(setting.value, option->type == typeid(std::int64_t)));
  }
  options.given.insert(setting.name);
}

void take(const Setting& setting, Options& options) {
  const bool was_given = options.is_given(setting.name);
  apply(setting, options);
  if (!was_given) options.given.erase(setting.name);
}

std::string read_ini_text(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw refusal("{} is a folder", file.string())
        .hint("Name an INI file with options, or give the folder of a model as --model.from={}", file.string());
  }
  if (!std::filesystem::is_regular_file(file, error)) {
    throw refusal("{} does not exist", file.string()).hint("Name an INI file with options{}", also_named(file));
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream.good() && !stream.eof()) throw refusal("{} cannot be read", file.string()).hint("Check its permissions");
  return text;
}

Options options_of(std::string_view text, const std::string& file_name, std::string_view without) {
  // A file that a run wrote names every option: those are repeated, not given.
  const bool by_run = text.starts_with(kRunConfigHeader);
  Options options;
  for (const auto& setting : read_ini(text, file_name).settings) {
    if (!setting.section.starts_with(without)) apply(setting, options);
  }
  if (by_run) options.repeated = std::exchange(options.given, {});
  if (by_run && !options.repeated.contains("data.begin")) options.data.begin = "none";  // of a version without it
  return options;
}

Options with_settings(Options options, const std::vector<Setting>& settings) {
  for (const auto& setting : settings) apply(setting, options);
  if (!options.repeated.empty()) drop_superseded(options);
  return options;
}

Options resolve(const std::filesystem::path& file, const std::vector<Setting>& arguments) {
  return resolved(file.empty() ? Options() : options_of(read_ini_text(file), file.string()), arguments);
}

Options parse_text(std::string_view ini, const std::string& file_name, const std::vector<std::string>& arguments) {
  return resolved(options_of(ini, file_name), settings_only(arguments));
}

Options parse_arguments(const std::vector<std::string>& arguments) { return resolved({}, settings_only(arguments)); }

std::filesystem::path run_folder(const Options& options) {
  if (!options.run.dir.empty()) return options.run.dir;
  return std::filesystem::path("runs") / options.run.name;
}

}  // namespace tessera
