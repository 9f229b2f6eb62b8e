#include "commands/words.hpp"

#include <fmt/ranges.h>

#include "tessera/base/closest.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

std::string words_after(const Command& command) {
  std::string words(command.paths);
  const auto add = [&](std::string_view word) { words += (words.empty() ? "" : " ") + std::string(word); };
  if (command.name == "help") add("[COMMAND]");
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
