// The help texts about commands and their options.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "commands/words.hpp"
#include "tessera/base/wrap.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/telemetry/progress.hpp"

namespace tessera {

namespace {

/// The options that most trainings set, shown before the list of all.
constexpr std::string_view kFirstOptions = R"(
The ten that most runs need:
  --data.source=PATHS         text or tokens to train on
  --data.tokenizer=FOLDER     what turns text into tokens; bytes without one
  --model.preset=NAME         the size: nano, gpt2-124m, ..., gemma3-1b
  --model.from=FOLDER         or fine-tune these weights
  --train.steps=N             how long
  --train.micro_batch=N       sequences per rank at a time
  --optim.lr=X                the learning rate
  --shard.strategy=NAME       what is split over ranks: ddp nothing, zero3 everything
  --run.dir=FOLDER            where the run writes
  --checkpoint.resume=auto    go on where the run in that folder was

All of them:
)";

constexpr std::string_view kExamples = R"(
Examples:
  mpiexec -n 2 tessera train --data.source=FOLDER --run.dir=RUN
  tessera generate RUN --generate.prompt="Once upon a time"
  tessera plan --model.preset=llama-8b --plan.ranks=64
)";

constexpr std::size_t kCommandColumn = 13, kOptionColumn = 33;  // where the texts of commands and of options begin

constexpr std::string_view kHow = "in INPUT.ini as [section] and key = value, or on the command line, which wins";

/// Lists the options that these commands read, with the section of their own name first.
std::string options_text(const std::vector<const Command*>& commands) {
  Readers readers = Readers::none;
  for (const Command* command : commands) readers = readers | command->reads;
  const std::string own = std::string(commands[0]->name.substr(0, commands[0]->name.find(' '))) + ".";
  const auto list = [&](auto is_listed) {
    return help_text([&](std::string_view name) { return read_option(readers, name) && is_listed(name); });
  };
  if (own == "train.") return std::string(kFirstOptions) + list([](std::string_view) { return true; });
  return list([&](std::string_view name) { return name.starts_with(own); }) +
         list([&](std::string_view name) { return !name.starts_with(own); });
}

}  // namespace

std::string usage_text() {
  std::string out = "tessera COMMAND [INPUT.ini] [--section.key=value ...]\n\nCommands:\n";
  std::string_view group;
  for (const Command& command : all_commands()) {
    const std::string_view first = command.name.substr(0, command.name.find(' '));
    if (first == command.name) {
      out += fmt::format("  {:<10} {}\n", command.name, command.help);
    } else if (std::exchange(group, first) != first) {
      out += fmt::format("  {:<10} {}: see tessera help {}\n", first, fmt::join(words_of_group(first), ", "), first);
    }
  }
  return out + std::string(kExamples) +
         "\nOptions of a command, with an example: tessera help COMMAND. Every option: tessera help options\n";
}

std::string help_on(const std::vector<std::string>& topic) {
  if (topic.empty() || topic[0] == "help") return usage_text();
  const std::string every = fmt::format("Every option, {}:\n{}", kHow, help_text());
  if (topic[0] == "options") return every;
  if (topic[0] == kWithOptions) return usage_text() + "\n" + every;
  const std::vector<const Command*> commands = commands_named(topic);
  if (commands.empty()) throw unknown_command(topic);
  std::string out;
  for (const Command* command : commands) {
    out += fmt::format("{}tessera {} {}\n{}\n\nExample: {}\n", out.empty() ? "" : "\n", command->name,
                       words_after(*command), command->help, command->example);
  }
  const std::string options = options_text(commands);
  if (options.empty()) return out;
  const bool has_file = std::ranges::any_of(commands, [](const Command* c) { return c->input != InputFile::none; });
  return fmt::format("{}\nOptions that {}{}{}:\n{}", out, commands.size() == 1 ? "it reads" : "they read",
                     has_file ? ", " : "", has_file ? kHow : "", options);
}

int run_help(const std::vector<std::string>& topic) {
  const auto width = static_cast<std::size_t>(terminal_width(stdout));
  std::istringstream lines(help_on(topic));
  for (std::string line; std::getline(lines, line);) {
    const bool of_option = line.starts_with("  --") || line.starts_with(std::string(kOptionColumn, ' '));
    const bool of_command = line.starts_with("  ") && !line.starts_with("  tessera ");
    const std::size_t column = of_option ? kOptionColumn : of_command ? kCommandColumn : 0;
    std::fputs((wrapped(line, column, width) + "\n").c_str(), stdout);
  }
  return 0;
}

}  // namespace tessera
