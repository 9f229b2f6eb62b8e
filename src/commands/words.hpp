#pragma once
// Words about commands, for messages and help.

#include <string>
#include <vector>

#include "tessera/commands/command.hpp"

namespace tessera {

/// Returns what follows a command's name: "CHECKPOINT TARGET [--section.key=value ...]".
std::string words_after(const Command& command);

/// Returns the commands that these words name: one; those that begin with the word, such as bench; or none.
std::vector<const Command*> commands_named(const std::vector<std::string>& words);

/// Returns the error about words that name no command: what is near, or what there is.
UsageError unknown_command(const std::vector<std::string>& words);

}  // namespace tessera
