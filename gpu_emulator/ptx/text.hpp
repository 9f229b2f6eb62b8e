#pragma once
// PTX as text: statements, words, numbers, declarations.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

std::string_view trimmed(std::string_view text);
/// Takes the first word off.
std::string_view take_word(std::string_view& text);
/// Parts between commas outside of brackets.
std::vector<std::string_view> split(std::string_view text);
/// A letter, digit, '_', '$' or '%'.
bool is_word(char c);

/// A piece of the text and the place in the source that it came from.
struct Statement {
  std::string text;
  int file = 0, line = 0;
};

/// std::runtime_error with the statement.
[[noreturn]] void refuse(const Statement& s, const std::string& why);

/// Refuses anything that is not an integer.
std::int64_t integer(std::string_view text, const Statement& s);
/// The bits of an immediate; nothing if the text is a name.
std::optional<std::uint64_t> immediate(std::string_view text, const Statement& s);

/// A declared variable: ".align 16 .b8 name[256]", ".u64 name".
struct Variable {
  std::string name;
  std::int64_t bytes = 0, alignment = 1;
};
Variable variable(std::string_view text, const Statement& s);

/// Cuts a module into statements: instructions, declarations, headers, labels (with ':'), "{" and "}". Sources' names
/// go to `files`, by number.
std::vector<Statement> cut(std::string_view text, std::vector<std::string>& files);

}  // namespace ptx
