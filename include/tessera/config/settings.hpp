#pragma once
// Option settings as text, before their meaning is known: from an INI file or from the command line.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

struct Setting {
  std::string name;  ///< "shard.wrap"
  std::string value;
  std::string place;                   ///< "run.ini:12" or "command line"
  std::string section = {};            ///< of a file: the text in its brackets
  std::vector<std::string> list = {};  ///< instead of `value`: in a section of lists
  /// Returns the name without its section.
  std::string key() const { return section.empty() ? name : name.substr(section.size() + 1); }
};

struct IniSection {
  std::string name, place;
};

struct IniFile {
  std::vector<Setting> settings;     ///< in the order of the file
  std::vector<IniSection> sections;  ///< each time that one begins, also without settings
};

/// Reads an INI file. Comments start with # or ; at the start of a line or after blank space. Blank space, CR LF and a
/// byte order mark are allowed. A value between double quotes keeps its blanks, # and ; (\" and \\ inside). The values
/// of the section `lists` are lists, between commas. UsageError with file and line for anything else, for an option set
/// twice, and for absurd sizes.
IniFile read_ini(std::string_view text, const std::string& file_name, std::string_view lists = {});

/// Reads the text of an INI file. UsageError if it is missing or cannot be read.
std::string read_ini_text(const std::filesystem::path& file);

/// Words of a command line: "--name=value" or "--name value" become settings, the rest are positional.
struct Arguments {
  std::vector<Setting> settings;
  std::vector<std::string> positional;
  bool help = false;     ///< --help or -h
  bool version = false;  ///< --version
};
Arguments read_arguments(const std::vector<std::string>& words);

/// Writes a setting into `options` and notes that it was given, or dropped (removed_options.hpp). UsageError for
/// unknown names and bad values.
void apply(const Setting& setting, Options& options);
/// Writes the value that an earlier run had: it counts as given only if the option was given before.
void take(const Setting& setting, Options& options);

/// Reads the options of an INI file as it says them, before they are checked against each other. Sections whose names
/// begin with `without` are left to others.
Options options_of(std::string_view text, const std::string& file_name, std::string_view without = "[");

/// Applies `settings` to `options`, later ones over earlier ones. If two options exclude each other and one only
/// repeats a run, the given one stands.
Options with_settings(Options options, const std::vector<Setting>& settings);

/// Reads options from `file` (none when empty), then from `arguments`, which win; validated.
Options resolve(const std::filesystem::path& file, const std::vector<Setting>& arguments);

/// The first words of a config.ini that a run wrote, of this version and of those before.
inline constexpr std::string_view kRunConfigHeader = "# Every option of this run";

/// Spells a value for an INI file so that read_ini gives it back.
std::string ini_value(const std::string& value);

}  // namespace tessera
