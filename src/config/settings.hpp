#pragma once
// Option settings as text, before their meaning is known: from an INI file or from the command line.

#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

struct Setting {
  std::string name;  ///< "shard.wrap"
  std::string value;
  std::string place;  ///< "run.ini:12" or "command line"
};

/// The settings of an INI file in its order. Comments (# or ; at the start of a line or after blank space), blank
/// space, CR LF and a byte order mark are allowed; a value between double quotes keeps its blanks, # and ; (\" and
/// \\ inside). UsageError with file and line for anything else, for an option set twice, and for absurd sizes.
std::vector<Setting> read_ini(std::string_view text, const std::string& file_name);

/// Words of a command line: "--name=value" or "--name value" become settings, the rest are positional.
struct Arguments {
  std::vector<Setting> settings;
  std::vector<std::string> positional;
  bool help = false;     ///< --help or -h
  bool version = false;  ///< --version
};
Arguments read_arguments(std::vector<std::string> words);

/// Writes a setting into `options` and notes that it was given. UsageError for unknown names and bad values.
void apply(const Setting& setting, Options& options);

/// Options from `file` (none when empty), then from `arguments`, which win; validated.
Options resolve(const std::filesystem::path& file, const std::vector<Setting>& arguments);

/// How a config.ini that a run wrote begins, of this version and of those before.
inline constexpr std::string_view kRunConfigHeader = "# Every option of this run";

/// How an INI file must spell a value so that read_ini gives it back.
std::string ini_value(const std::string& value);

}  // namespace tessera
