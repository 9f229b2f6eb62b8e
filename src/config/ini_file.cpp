#include <algorithm>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <iomanip>
#include <map>
#include <sstream>

#include "config/settings.hpp"
#include "config/value_text.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

namespace po = boost::program_options;

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxLine = 4096;
/// Stands for # while Boost reads a line: Boost takes every # for a comment, also one inside quotes or a word.
constexpr char kHiddenHash = '\0';

bool starts_comment(char c) { return c == '#' || c == ';'; }

/// The text without a comment that stands at its start or after blank space.
std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (starts_comment(text[i]) && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) return text.substr(0, i);
  }
  return text;
}

std::string in_double_quotes(const std::string& value) {
  std::ostringstream text;
  text << std::quoted(value);
  return text.str();
}

/// The text of a value in double quotes; only blanks or a comment may follow it.
std::string read_quoted(const std::string& text, const std::string& place) {
  std::string value;
  std::istringstream(text) >> std::quoted(value);
  const std::string spelled = in_double_quotes(value);
  if (!text.starts_with(spelled)) {
    throw UsageError("{}: {} is not a whole quoted value: close it with \", and write \\\" and \\\\ inside", place,
                     in_quotes(text));
  }
  const auto rest = trimmed(std::string_view(text).substr(spelled.size()));
  if (rest.empty() || starts_comment(rest.front())) return value;
  throw UsageError("{}: {} after a quoted value (it is not a comment): end the line after the quote", place,
                   in_quotes(rest));
}

/// Reads lines one after the other, remembering the section and what was set. Boost reads each line, with its section
/// in front: so errors have a line.
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
    content.front() == '[' ? section(trimmed(without_comment(content))) : setting(std::string(content));
  }

  std::vector<Setting> take() { return std::move(settings_); }

 private:
  void section(std::string_view text) {
    const auto name = text.back() == ']' ? trimmed(text.substr(1, text.size() - 2)) : std::string_view{};
    if (name.empty()) throw UsageError("{}: {} is not a section: write [name]", place_, in_quotes(text));
    section_ = fmt::format("[{}]", name);
  }

  void setting(const std::string& text) {
    const auto [name, raw] = key_and_value(text);
    if (section_.empty()) throw UsageError("{}: {} before any section: write [section] first", place_, in_quotes(name));
    if (const auto [first, fresh] = seen_.emplace(name, number_); !fresh) {
      throw UsageError("{}: {} is set twice (first in line {}): keep one", place_, name, first->second);
    }
    auto value = raw.starts_with('"') ? read_quoted(raw, place_) : std::string(trimmed(without_comment(raw)));
    settings_.push_back({name, std::move(value), place_});
  }

  /// "section.key", and what follows the = with its quotes and comment.
  std::pair<std::string, std::string> key_and_value(const std::string& text) const try {
    static const po::options_description any_name;
    std::string line = section_ + "\n" + text;
    if (text.find(kHiddenHash) != std::string::npos) throw po::error("a NUL byte");
    std::ranges::replace(line, '#', kHiddenHash);
    std::istringstream stream(line);
    po::option option = po::parse_config_file(stream, any_name, true).options.at(0);
    for (auto* part : {&option.string_key, &option.value.at(0)}) std::ranges::replace(*part, kHiddenHash, '#');
    return {option.string_key, option.value.at(0)};
  } catch (const po::error&) {
    throw UsageError("{}: {} is neither a section nor an option: write [section] or key = value", place_,
                     in_quotes(text));
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
  return plain ? value : in_double_quotes(value);
}

}  // namespace tessera
