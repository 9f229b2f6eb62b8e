#include "tessera/config/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/settings.hpp"
#include "config/value_text.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/describe.hpp"

namespace tessera {

namespace {

struct CommandRow {
  CommandKind kind;
  std::string_view name, help;
};
constexpr std::array<CommandRow, 9> kCommands{
    {{CommandKind::train, "train", "train a model (start it with mpiexec for several ranks)"},
     {CommandKind::plan, "plan", "memory and schedule of every strategy, without ranks or a GPU"},
     {CommandKind::bench, "bench", "comm|step|kernels|memory|checkpoint: measure this machine"},
     {CommandKind::import_, "import", "SOURCE CHECKPOINT: a Hugging Face folder or llm.c's model.bin to a checkpoint"},
     {CommandKind::export_, "export",
      "CHECKPOINT TARGET: to a Hugging Face folder, or to llm.c's file if it ends with .bin"},
     {CommandKind::verify, "verify", "CHECKPOINT: is it complete and undamaged? exit code 0 or 4"},
     {CommandKind::inspect, "inspect", "CHECKPOINT: step, grid, options, and what each tensor looks like"},
     {CommandKind::help, "help", "this text"},
     {CommandKind::version, "version", "what was built in"}}};
struct BenchRow {
  BenchKind kind;
  std::string_view name;
};
constexpr std::array<BenchRow, 5> kBenches{{{BenchKind::comm, "comm"},
                                            {BenchKind::step, "step"},
                                            {BenchKind::kernels, "kernels"},
                                            {BenchKind::memory, "memory"},
                                            {BenchKind::checkpoint, "checkpoint"}}};

/// "train, plan, bench, ..."
template <class Rows>
std::string names_of(const Rows& rows) {
  std::string out;
  for (const auto& row : rows) out += fmt::format("{}{}", out.empty() ? "" : ", ", row.name);
  return out;
}

CommandKind command_named(const std::string& name) {
  for (const auto& row : kCommands) {
    if (row.name == name) return row.kind;
  }
  throw UsageError("unknown command {}: {}", in_quotes(name), names_of(kCommands));
}

/// Paths that a command takes instead of an input file.
std::size_t paths_of(CommandKind kind) {
  switch (kind) {
    case CommandKind::import_:
    case CommandKind::export_:
      return 2;
    case CommandKind::verify:
    case CommandKind::inspect:
      return 1;
    default:
      return 0;
  }
}

std::string_view help_of(CommandKind kind) {
  for (const auto& row : kCommands) {
    if (row.kind == kind) return row.help;
  }
  return {};
}

BenchKind bench_named(const std::string& name) {
  for (const auto& row : kBenches) {
    if (row.name == name) return row.kind;
  }
  throw UsageError("bench {} (nothing of that name to measure): {}", in_quotes(name), names_of(kBenches));
}

}  // namespace

std::string_view name_of(CommandKind kind) {
  for (const auto& row : kCommands) {
    if (row.kind == kind) return row.name;
  }
  throw InternalError("no command {}", static_cast<int>(kind));
}

std::string_view name_of(BenchKind kind) {
  for (const auto& row : kBenches) {
    if (row.kind == kind) return row.name;
  }
  throw InternalError("no bench {}", static_cast<int>(kind));
}

Command read_command(const std::vector<std::string>& words) {
  Command command;
  if (words.empty()) return command;
  // An option before the command would swallow the command as its value: the command comes first, or a flag stands
  // alone.
  auto arguments = read_arguments(words);
  if (arguments.help) return command;
  if (arguments.version) return command.kind = CommandKind::version, command;
  if (words[0].starts_with("-")) {
    throw UsageError("{} where a command belongs: tessera COMMAND [INPUT.ini] [--section.key=value ...], with {}",
                     in_quotes(words[0]), names_of(kCommands));
  }
  command.kind = command_named(words[0]);
  if (command.kind == CommandKind::help || command.kind == CommandKind::version) return command;

  auto& positional = arguments.positional;
  std::size_t next = 1;
  if (command.kind == CommandKind::bench) {
    if (positional.size() <= next) throw UsageError("bench needs to know what to measure: {}", names_of(kBenches));
    command.bench = bench_named(positional[next++]);
  }
  const std::size_t paths = paths_of(command.kind);
  if (positional.size() < next + paths) {
    throw UsageError("{} needs {}: tessera {} {}", words[0], paths == 1 ? "a path" : "two paths", words[0],
                     help_of(command.kind));
  }
  for (std::size_t i = 0; i < paths; ++i) command.paths.emplace_back(positional[next++]);
  if (next < positional.size() && paths == 0) command.input = positional[next++];
  if (next < positional.size()) {
    if (paths > 0) {
      throw UsageError("{} after the path{} of {} (no more is read): write options as --section.key=value",
                       in_quotes(positional[next]), paths == 1 ? "" : "s", words[0]);
    }
    throw UsageError("{} after the input file {} (one file is read): write options as --section.key=value",
                     in_quotes(positional[next]), in_quotes(command.input.string()));
  }
  command.options = resolve(command.input, arguments.settings);
  return command;
}

std::string usage_text() {
  std::string out = "tessera COMMAND [INPUT.ini] [--section.key=value ...]\n\nCommands:\n";
  for (const auto& row : kCommands) out += fmt::format("  {:<8} {}\n", row.name, row.help);
  out += "\nOptions, in INPUT.ini as [section] and key = value, or on the command line, which wins:\n";
  return out + help_text();
}

}  // namespace tessera
