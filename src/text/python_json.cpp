#include "text/python_json.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <utility>

namespace tessera {

namespace {

constexpr std::size_t kUnit = 6;  ///< bytes of "\ud83d"
constexpr std::size_t kDecides =
    2 * kUnit;  ///< bytes that decide what begins at a place: a pair of these is the longest

/// Returns the UTF-16 unit of the escape with which `text` begins; 0 if it is none.
unsigned unit_of(std::string_view text) {
  unsigned unit = 0;
  if (text.size() < kUnit || !text.starts_with("\\u")) return 0;
  const char* const end = text.data() + kUnit;
  return std::from_chars(text.data() + 2, end, unit, 16).ptr == end ? unit : 0;
}
bool is_high(unsigned unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(unsigned unit) { return unit >= 0xdc00 && unit < 0xe000; }

/// Constants of Python, and the numbers in their place.
constexpr std::pair<std::string_view, std::string_view> kConstants[] = {
    {"NaN", "0E7"}, {"Infinity", "0E000007"}, {"-Infinity", "-0E000007"}};

/// Returns what stands for the constant with which `text` begins; nothing if it is none, or part of something else.
std::string_view stand_in_at(std::string_view text, char before) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.'; };
  for (const auto& [word, number] : kConstants) {
    if (!text.starts_with(word) || is_part(before)) continue;
    if (text.size() == word.size() || !is_part(text[word.size()])) return number;
  }
  return {};
}

}  // namespace

std::string_view PythonJson::original(std::string_view number) {
  const auto found = std::ranges::find(kConstants, number, [](const auto& one) { return one.second; });
  return found == std::end(kConstants) ? number : found->first;
}

bool PythonJson::may_need(std::string_view text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  return has("NaN") || has("Infinity") || has("\\ud") || has("\\uD");
}

std::size_t PythonJson::rewrite(std::span<char> text, bool ended) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest(text.data() + at, text.size() - at);
    const bool is_escape = in_string_ && rest[0] == '\\';
    if (is_escape || (!in_string_ && (rest[0] == 'N' || rest[0] == 'I' || rest[0] == '-'))) {
      if (rest.size() < kDecides && !ended) break;
      const std::string_view stand_in = is_escape ? "" : stand_in_at(rest, before_);
      std::ranges::copy(stand_in, text.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t length = is_escape ? rewrite_escape(text.subspan(at)) : stand_in.size();
      if (length > 0) {
        before_ = '0';
        at += length;
        continue;
      }
    }
    if (rest[0] == '"') in_string_ = !in_string_;
    before_ = rest[0];
    // Most bytes are inside of strings.
    at += in_string_ ? std::max<std::size_t>(1, std::min(rest.find_first_of("\"\\", 1), rest.size())) : 1;
  }
  return at;
}

/// Returns the length of the escape with which `text` begins.
std::size_t PythonJson::rewrite_escape(std::span<char> text) {
  const std::string_view all(text.data(), text.size());
  const unsigned unit = unit_of(all);
  if (!is_high(unit) && !is_low(unit)) return std::min<std::size_t>(text.size(), 2);
  if (is_high(unit) && is_low(unit_of(all.substr(kUnit)))) return kDecides;
  std::ranges::copy(std::string_view("\\ufffd"), text.begin());
  ++surrogates_;
  return kUnit;
}

}  // namespace tessera
