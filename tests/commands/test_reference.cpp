// inputs/README.md holds the tables of commands, steps and options: the texts between its markers equal the program's.
#include <catch2/catch.hpp>

#include "document.hpp"
#include "tessera/commands/command.hpp"
#include "tessera/config/describe.hpp"

TEST_CASE("inputs/README.md holds the commands and options as they are (TESSERA_UPDATE=1 rewrites it)") {
  check_table("inputs/README.md", "commands", tessera::command_reference_markdown());
  check_table("inputs/README.md", "steps", tessera::resolve_reference_markdown());
  check_table("inputs/README.md", "options", tessera::option_reference_markdown());
}

TEST_CASE("A changed, missing or added line of the table is a difference") {
  CHECK(first_difference("a\nb\n", "a\nb\n") == "");
  CHECK(first_difference("a\nb\n", "a\nc\n") != "");
  CHECK(first_difference("a\n", "a\nb\n") != "");
  CHECK(first_difference("a\n\n", "a\n") != "");
}
