// inputs/README.md holds the tables of commands, steps and options: the texts between its markers equal the program's.
// TESSERA_UPDATE=1 in the environment writes it there instead of comparing.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tessera/commands/command.hpp"
#include "tessera/config/describe.hpp"

namespace {

const std::filesystem::path kFile = std::filesystem::path(TESSERA_REFERENCE_DIR) / ".." / ".." / "inputs" / "README.md";
std::string marker(const char* table, const char* end) { return fmt::format("<!-- {}: {} -->\n", table, end); }

struct Document {
  std::string before, table, after;  ///< `before` ends with the first marker, `after` begins with the second
};

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), {}};
}

Document split_at_markers(const std::string& text, const char* name) {
  const auto begin = text.find(marker(name, "begin")), end = text.find(marker(name, "end"));
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const auto table = begin + marker(name, "begin").size();
  REQUIRE(table <= end);
  return {text.substr(0, table), text.substr(table, end - table), text.substr(end)};
}

/// Returns the first line in which two texts differ: "line 12: ... instead of ...", or "" if they do not.
std::string first_difference(const std::string& found, const std::string& wanted) {
  std::istringstream a(found), b(wanted);
  for (int number = 1;; ++number) {
    std::string left, right;
    const bool more_left = static_cast<bool>(std::getline(a, left)),
               more_right = static_cast<bool>(std::getline(b, right));
    if (!more_left && !more_right) return "";
    if (more_left != more_right || left != right) {
      return "line " + std::to_string(number) + ": \"" + left + "\" instead of \"" + right + "\"";
    }
  }
}

void check_table(const char* name, const std::string& markdown) {
  const Document document = split_at_markers(read_text(kFile), name);
  const std::string wanted = "\n" + markdown + "\n";
  if (const char* update = std::getenv("TESSERA_UPDATE"); update != nullptr && std::string(update) == "1") {
    std::ofstream stream(kFile, std::ios::binary);
    stream << document.before << wanted << document.after;
    REQUIRE(stream.flush().good());
    return;
  }
  INFO("inputs/README.md is behind the table of " << name << ": run test_commands once with TESSERA_UPDATE=1");
  CHECK(first_difference(document.table, wanted) == "");
}

}  // namespace

TEST_CASE("inputs/README.md holds the commands and options as they are (TESSERA_UPDATE=1 rewrites it)") {
  check_table("commands", tessera::command_reference_markdown());
  check_table("steps", tessera::resolve_reference_markdown());
  check_table("options", tessera::option_reference_markdown());
}

TEST_CASE("A changed, missing or added line of the table is a difference") {
  CHECK(first_difference("a\nb\n", "a\nb\n") == "");
  CHECK(first_difference("a\nb\n", "a\nc\n") != "");
  CHECK(first_difference("a\n", "a\nb\n") != "");
  CHECK(first_difference("a\n\n", "a\n") != "");
}
