#include <algorithm>
#include <map>

#include "config/settings.hpp"
#include "config/value_text.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxLine = 4096;

bool is_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_allowed);
}

bool starts_comment(char c) { return c == '#' || c == ';'; }

/// The line without a comment that stands at its start or after blank space.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (starts_comment(line[i]) && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

/// The text of a value in double quotes; only blanks or a comment may follow it.
std::string read_quoted(std::string_view text, const std::string& place) {
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      const auto rest = trimmed(text.substr(i + 1));
      if (!rest.empty() && !starts_comment(rest.front())) {
        throw UsageError("{}: {} after a quoted value (it is not a comment): end the line after the quote", place,
                         in_quotes(rest));
      }
      return value;
    }
    if (text[i] == '\\') {
      if (i + 1 >= text.size() || (text[i + 1] != '"' && text[i + 1] != '\\')) break;
      ++i;
    }
    value += text[i];
  }
  throw UsageError("{}: {} is not a whole quoted value: close it with \", and write \\\" and \\\\ inside", place,
                   in_quotes(text));
}

/// Reads lines one after the other, remembering the section and what was set.
class IniReader {
 public:
  explicit IniReader(const std::string& file_name) : file_name_(file_name) {}

  void line(std::string_view text) {
    place_ = fmt::format("{}:{}", file_name_, ++number_);
    if (text.size() > kMaxLine) {
      throw UsageError("{}: line of {} bytes (too long for an option): at most {}", place_, text.size(), kMaxLine);
    }
    const auto content = trimmed(text);
    if (content.empty() || starts_comment(content.front())) return;
    content.front() == '[' ? section(trimmed(without_comment(content))) : setting(content);
  }

  std::vector<Setting> take() { return std::move(settings_); }

 private:
  void section(std::string_view text) {
    const auto name = text.back() == ']' ? trimmed(text.substr(1, text.size() - 2)) : std::string_view{};
    if (!is_name(name)) throw UsageError("{}: {} is not a section: write [name]", place_, in_quotes(text));
    section_ = name;
  }

  void setting(std::string_view text) {
    const auto equals = text.find('=');
    const auto key = trimmed(text.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(key)) {
      throw UsageError("{}: {} is neither a section nor an option: write [section] or key = value", place_,
                       in_quotes(text));
    }
    if (section_.empty()) throw UsageError("{}: {} before any section: write [section] first", place_, in_quotes(key));
    const auto raw = trimmed(text.substr(equals + 1));
    auto value = raw.starts_with('"') ? read_quoted(raw, place_)
                                      : std::string(trimmed(without_comment(text.substr(equals + 1))));
    auto name = section_ + "." + std::string(key);
    if (const auto [first, fresh] = seen_.emplace(name, number_); !fresh) {
      throw UsageError("{}: {} is set twice (first in line {}): keep one", place_, name, first->second);
    }
    settings_.push_back({std::move(name), std::move(value), place_});
  }

  const std::string& file_name_;
  std::size_t number_ = 0;
  std::string place_, section_;
  std::vector<Setting> settings_;
  std::map<std::string, std::size_t> seen_;
};

}  // namespace

std::vector<Setting> read_ini(std::string_view text, const std::string& file_name) {
  if (text.size() > kMaxBytes) {
    throw UsageError("{}: {} bytes (too large for an option file): at most {}", file_name, text.size(), kMaxBytes);
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  IniReader reader(file_name);
  while (!text.empty()) {
    const auto end = text.find('\n');
    reader.line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.take();
}

std::string ini_value(const std::string& value) {
  const bool plain =
      trimmed(value) == value && value.find_first_of("#;") == std::string::npos && !value.starts_with('"');
  if (plain) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace tessera
