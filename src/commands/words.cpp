#include "commands/words.hpp"

#include <fmt/ranges.h>

#include <utility>

#include "tessera/base/closest.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace {

/// What people type for things that have another name here, and for commands of earlier versions.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"report", "Tables and pages are made by tessera-report RUN (postprocess/report.py in the sources)"},
    {"finetune", "To fine-tune, write tessera train --model.from=FOLDER --data.source=FILES"},
    {"sample", "To write text, use tessera generate RUN --generate.prompt=TEXT"},
    {"chat", "To ask a model, use tessera generate RUN --generate.chat --generate.prompt=TEXT"},
    {"bench memory",
     "All memory is planned: tessera plan shows it for every strategy, and the table of tessera-report RUN has what a "
     "run's process or GPU took next to its plan"},
    {"resume", "To go on with a run, repeat its command with --checkpoint.resume=auto"},
    {"status",
     "A run's state is in RUN/status.json; tessera postmortem RUN says what its ranks do, and tessera sweep "
     "FILE.ini --sweep.action=status how the rows of a sweep are"}};

}  // namespace

std::string words_after(const Command& command) {
  std::string words(command.paths);
  const auto add = [&](std::string_view word) { words += (words.empty() ? "" : " ") + std::string(word); };
  if (command.name == "help") add("[COMMAND or options]");
  if (command.input == InputFile::of_sweep) add("FILE.ini");
  if (command.input == InputFile::of_run) add("[INPUT.ini or RUN]");
  if (command.input == InputFile::optional) add("[INPUT.ini]");
  if (command.reads != Readers::none) add("[--section.key=value ...]");
  return words;
}

std::vector<const Command*> commands_named(const std::vector<std::string>& words) {
  if (const Command* one = find_command(words)) return {one};
  std::vector<const Command*> group;
  for (const Command& command : all_commands()) {
    if (words.size() == 1 && command.name.starts_with(words[0] + " ")) group.push_back(&command);
  }
  return group;
}

std::vector<std::string_view> words_of_group(std::string_view first) {
  std::vector<std::string_view> words;
  for (const Command& command : all_commands()) {
    const std::size_t space = command.name.find(' ');
    if (space != std::string_view::npos && command.name.substr(0, space) == first)
      words.push_back(command.name.substr(space + 1));
  }
  return words;
}

Refusal unknown_command(const std::vector<std::string>& words) {
  const std::string two = words.size() > 1 ? words[0] + " " + words[1] : words[0];
  for (const auto& [typed, instead] : kElsewhere) {
    if (typed == words[0] || typed == two) return refusal("unknown command {}", in_quotes(typed)).hint("{}", instead);
  }
  if (const auto of_group = words_of_group(words[0]); !of_group.empty()) {
    return (words.size() > 1 ? refusal("tessera {} does not know {}", words[0], in_quotes(words[1]))
                             : refusal("tessera {} needs to know what to do", words[0]))
        .use("one of {}", fmt::join(of_group, ", "));
  }
  std::vector<std::string_view> all;
  for (const Command& command : all_commands()) all.push_back(command.name);
  std::vector<std::string_view> first(all);
  for (std::string_view& name : first) name = name.substr(0, name.find(' '));
  const std::string_view near = closest(words[0], first);
  return refusal("unknown command {}{} The commands are: {}", in_quotes(words[0]),
                 near.empty() ? "." : fmt::format(": did you mean {}?", near), fmt::join(all, ", "));
}

}  // namespace tessera
