#include <iomanip>
#include <map>
#include <sstream>
#include <tuple>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxLine = 4096;

bool starts_comment(char c) { return c == '#' || c == ';'; }

/// Returns the text without a comment that stands at its start or after blank space.
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (starts_comment(text[i]) && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) return text.substr(0, i);
  }
  return text;
}

std::string in_double_quotes(const std::string& value) { return (std::ostringstream() << std::quoted(value)).str(); }

/// Splits `text` into a value between quotes at its start, and the rest.
std::pair<std::string, std::string_view> quoted_value(std::string_view text, const std::string& place) {
  std::string value;
  std::istringstream{std::string(text)} >> std::quoted(value);
  const std::string spelled = in_double_quotes(value);
  if (text.starts_with(spelled)) return {value, trimmed(text.substr(spelled.size()))};
  throw refusal("{}: {} is not a whole quoted value", place, in_quotes(text))
      .hint("Close it with \", and write \\\" and \\\\ inside");
}

/// Returns the value without its quotes or its comment; only a comment may follow a quoted value.
std::string value_of(std::string_view text, const std::string& place) {
  if (!text.starts_with('"')) return std::string(trimmed(without_comment(text)));
  const auto [value, rest] = quoted_value(text, place);
  if (rest.empty() || starts_comment(rest.front())) return value;
  throw refusal("{}: {} follows a quoted value, and is not a comment", place, in_quotes(rest))
      .hint("End the line after the quote");
}

/// Returns the values between commas; one that has a comma stands in quotes.
std::vector<std::string> list_of(std::string_view text, const std::string& place) {
  std::vector<std::string> values;
  for (bool more = true; more;) {
    text = trimmed(text);
    if (text.starts_with('"')) {
      std::tie(values.emplace_back(), text) = quoted_value(text, place);
      if (!text.empty() && starts_comment(text.front())) text = {};
      if (!text.empty() && text.front() != ',')
        throw refusal("{}: {} follows a quoted value", place, in_quotes(text)).use("a comma, or end the line there");
    } else {
      const std::string_view item = text.substr(0, text.find(',')), value = without_comment(item);
      values.emplace_back(trimmed(value));
      text = value.size() < item.size() ? std::string_view{} : text.substr(item.size());
      if (values.back().empty())
        throw refusal("{}: a value of the list is missing", place).hint("Write \"\" for an empty one");
    }
    more = !text.empty();
    if (more) text.remove_prefix(1);
  }
  return values;
}

std::string section_of(std::string_view line, const std::string& place) {
  const auto text = trimmed(without_comment(line));
  const auto name = text.back() == ']' ? trimmed(text.substr(1, text.size() - 2)) : std::string_view{};
  if (name.empty()) throw refusal("{}: {} is not a section", place, in_quotes(text)).hint("Write [name]");
  return std::string(name);
}

}  // namespace

IniFile read_ini(std::string_view text, const std::string& file_name, std::string_view lists) {
  if (text.size() > kMaxBytes)
    throw refusal("{}: {} bytes are too many for an option file", file_name, text.size()).use("at most {}", kMaxBytes);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  IniFile ini;
  std::map<std::string, int> lines;
  std::string section;
  std::istringstream file{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto place = fmt::format("{}:{}", file_name, number);
    if (line.size() > kMaxLine)
      throw refusal("{}: a line of {} bytes is too long for an option", place, line.size()).use("at most {}", kMaxLine);
    const std::string_view content = trimmed(line);
    if (content.empty() || starts_comment(content.front())) continue;
    if (content.front() == '[') {
      section = section_of(content, place);
      ini.sections.push_back({section, place});
      continue;
    }
    const std::size_t equals = content.find('=');
    if (equals == std::string_view::npos)
      throw refusal("{}: {} is neither a section nor an option", place, in_quotes(content))
          .hint("Write [section] or key = value");
    const std::string_view key = trimmed(content.substr(0, equals)), value = trimmed(content.substr(equals + 1));
    if (section.empty())
      throw refusal("{}: {} stands before any section", place, in_quotes(key)).hint("Write [section] first");
    const std::string name = fmt::format("{}.{}", section, key);
    if (const auto [first, is_new] = lines.emplace(name, number); !is_new) {
      throw refusal("{}: {} is set twice, first in line {}", place, name, first->second).hint("Keep one");
    }
    Setting& setting = ini.settings.emplace_back(Setting{name, "", place, section});
    if (setting.section == lists) {
      setting.list = list_of(value, place);
    } else {
      setting.value = value_of(value, place);
    }
  }
  return ini;
}

std::string ini_value(const std::string& value) {
  const bool plain = trimmed(value) == value && value.find_first_of("#;\"") == std::string::npos;
  return plain ? value : in_double_quotes(value);
}

}  // namespace tessera
