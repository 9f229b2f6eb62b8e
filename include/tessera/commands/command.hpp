#pragma once
// The commands of `tessera`: a table (src/commands/table.cpp), and a command as it was called.
// tessera COMMAND [PATHS] [INPUT.ini] [--section.key=value ...]

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/world.hpp"
#include "tessera/config/readers.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/record/run_facts.hpp"

namespace tessera {

struct Call;

/// Which INI file a command takes.
enum class InputFile : std::uint8_t {
  none,
  optional,  ///< INPUT.ini
  of_run,    ///< INPUT.ini, or a run or a checkpoint, whose config.ini is taken
  of_sweep   ///< FILE.ini, which must be given; each of its rows has its own options
};

/// A row of the table. A new command is a row, and a file for its function.
struct Command {
  std::string_view name;   ///< one word or two: "train", "bench step"
  std::string_view paths;  ///< the words that must follow: "CHECKPOINT TARGET"
  InputFile input = InputFile::none;
  std::string_view help, example;
  Readers reads = Readers::none;  ///< it reads the options that have one of these readers
  Readers takes = Readers::none;  ///< and accepts these too, so that a run's command line can be used unchanged
  bool needs_ranks = false;       ///< collective: `run` is called on every rank, with a World
  int (*run)(Call& call) = nullptr;
  std::string_view path_option = {};  ///< the option that the path stands for
};

/// Returns every command, in the order of the help text.
std::span<const Command> all_commands();

/// Returns the command whose name these words begin with; null if there is none.
const Command* find_command(const std::vector<std::string>& words);

/// A command as it was called.
struct Call {
  const Command* command = nullptr;
  std::vector<std::string> words;  ///< the paths; of help: the command to explain, none for all
  std::filesystem::path input;     ///< the INI file; empty if none was named
  Options options;                 ///< checked; defaults for InputFile::of_sweep
  std::vector<Setting> settings;   ///< of the command line
  Invocation invocation;           ///< how the program was started
  World* world = nullptr;          ///< for commands that need ranks

  std::filesystem::path path(std::size_t i = 0) const { return words.at(i); }
};

/// Reads the words after the executable's name. "help [COMMAND]", --help anywhere and -h mean help; "version" and
/// --version mean version. Throws UsageError for an unknown command, for an option on the command line that the command
/// does not read, and for everything that `parse_text` refuses.
Call read_call(const std::vector<std::string>& words);

/// Returns the text of `tessera` alone: usage, commands, examples, and where to read on.
std::string usage_text();

/// Returns the text of `tessera help`: usage_text; of `tessera help options`: every option; of `tessera --help`: both.
/// For `tessera help COMMAND`, or the first word of several commands: what they do, with an example, and the options
/// that they read. UsageError for an unknown command.
std::string help_on(const std::vector<std::string>& topic);

/// Runs the program: reads the command, starts MPI if it needs ranks, and maps errors to exit codes.
int run_program(int argc, char** argv);

}  // namespace tessera
