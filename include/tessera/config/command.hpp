#pragma once
// What the user asked the executable to do: tessera COMMAND [WHAT] [INPUT.ini] [--section.key=value ...].

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

enum class CommandKind : std::uint8_t { train, plan, bench, import_, export_, verify, inspect, help, version };

/// What `tessera bench` measures.
enum class BenchKind : std::uint8_t { comm, step, kernels, memory, checkpoint };

std::string_view name_of(CommandKind kind);
std::string_view name_of(BenchKind kind);

struct Command {
  CommandKind kind = CommandKind::help;
  BenchKind bench = BenchKind::step;         ///< only for kind = bench
  std::filesystem::path input;               ///< the INI file; empty when none was named
  std::vector<std::filesystem::path> paths;  ///< of import, export, verify and inspect
  Options options;                           ///< resolved and validated; defaults for help and version
};

/// Reads the words after the executable's name. No word at all, "help" and --help anywhere mean help; "version" and
/// --version mean version. UsageError for an unknown command, one of a later version, and everything that `parse`
/// refuses.
Command read_command(const std::vector<std::string>& words);

/// For `--help`: usage, commands, then help_text().
std::string usage_text();

}  // namespace tessera
