#pragma once
// The user's command: tessera COMMAND [WHAT] [INPUT.ini] [--section.key=value ...].

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/config/settings.hpp"

namespace tessera {

enum class CommandKind : std::uint8_t {
  train,
  plan,
  bench,
  sweep,
  generate,
  eval,
  data,
  import_,
  export_,
  verify,
  inspect,
  index,
  help,
  version,
  none
};

/// The subjects of `tessera bench`.
enum class BenchKind : std::uint8_t { comm, step, kernels, memory, checkpoint };

/// The tasks of `tessera data`.
enum class DataTask : std::uint8_t { prepare, inspect };

std::string_view name_of(CommandKind kind);
std::string_view name_of(BenchKind kind);

struct Command {
  CommandKind kind = CommandKind::none;
  CommandKind topic = CommandKind::help;  ///< only for kind = help: the command to explain, or help for all
  BenchKind bench = BenchKind::step;      ///< only for kind = bench
  DataTask data = DataTask::prepare;      ///< only for kind = data
  std::filesystem::path input;            ///< the INI file; empty when none was named
  std::vector<std::filesystem::path>
      paths;                      ///< of generate, eval, import, export, verify, inspect, index, data inspect
  Options options;                ///< resolved and validated; defaults for help, version and sweep
  std::vector<Setting> settings;  ///< only for kind = sweep: the command line's
};

/// Reads the words after the executable's name. No word means none; "help [COMMAND]" and --help anywhere mean help;
/// "version" and --version mean version. UsageError for an unknown command, for an option on the command line that the
/// command does not read, and for everything that `parse_text` refuses.
Command read_command(const std::vector<std::string>& words);

/// Returns the text of `tessera` alone: usage, commands, where to read on.
std::string usage_text();

/// Returns the text of `tessera help`: commands and every option. Of `tessera help COMMAND`: that command, the options
/// that it reads, an example.
std::string help_on(CommandKind topic);

/// Returns whether a command reads an option ("shard.wrap").
bool reads(CommandKind kind, std::string_view option);

}  // namespace tessera
