#pragma once
// Every option once. Parsing, writing, help, documentation and the flat list all walk this table.

#include <string>
#include <string_view>
#include <vector>

#include "config/option_entry.hpp"

namespace tessera {

/// All rows, section by section in the order of the help text.
const std::vector<OptionEntry>& option_table();

/// The row of a full name ("shard.wrap"), or nullptr.
const OptionEntry* find_option(std::string_view name);

/// One line that says what a section is about.
std::string_view section_title(std::string_view section);

/// The known option that an unknown name most likely means; empty when none is near.
std::string closest_option(std::string_view unknown);

}  // namespace tessera
