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

UsageError unknown_command(const std::vector<std::string>& words) {
  std::vector<std::string_view> all, of_group;
  for (const Command& command : all_commands()) {
    all.push_back(command.name);
    if (command.name.starts_with(words[0] + " ")) of_group.push_back(command.name.substr(words[0].size() + 1));
  }
  if (!of_group.empty()) {
    const std::string given = words.size() > 1 ? fmt::format("not {}", in_quotes(words[1])) : "and none was given";
    return UsageError("tessera {} needs to know what to do: {}, {}.", words[0], fmt::join(of_group, ", "), given);
  }
  const std::string_view near = closest(words[0], all);
  return UsageError("unknown command {}. {}The commands are: {}.", in_quotes(words[0]),
                    near.empty() ? "" : fmt::format("Did you mean {}? ", near), fmt::join(all, ", "));
}

}  // namespace tessera
