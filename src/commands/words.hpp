#pragma once
// Words about commands, for messages and help.

#include <string>
#include <vector>

#include "tessera/base/refuse.hpp"
#include "tessera/commands/command.hpp"

namespace tessera {

/// The topic of `tessera --help` alone: the commands, and every option.
inline constexpr std::string_view kWithOptions = "--help";

/// Returns the words that follow a command's name: "CHECKPOINT TARGET [--section.key=value ...]".
std::string words_after(const Command& command);

/// Returns the commands that these words name: one; those that begin with the word, such as bench; or none.
std::vector<const Command*> commands_named(const std::vector<std::string>& words);

/// Returns the second words of the commands that begin with this word: step, comm, ... of bench.
std::vector<std::string_view> words_of_group(std::string_view first);

/// Returns the error about words that name no command: with similar commands, or with all of them.
Refusal unknown_command(const std::vector<std::string>& words);

}  // namespace tessera
