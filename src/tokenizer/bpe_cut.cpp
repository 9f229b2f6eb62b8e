// Where text may be cut so that both parts give the ids of the whole.

#include <algorithm>

#include "tessera/base/utf8.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/code_points.hpp"

namespace tessera {

namespace {

// Cuts are made before ASCII white space that follows something else, and after line ends (ends_lines). In the known
// families' patterns a word that has another character ends before white space. One exception: signs take the line ends
// after them (not in GPT-2). Words after the cut depend on what follows it alone, and no look-ahead leaves the run of
// white space. Normal form C joins nothing to white space.

bool ascii_white(char c) {
  return static_cast<unsigned char>(c) < 0x80 && is_white_space(static_cast<unsigned char>(c));
}

/// True for characters that are letters or digits in every version of Unicode; also false for some that are.
bool surely_letter_or_digit(char32_t point) {
  return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z') || (point >= '0' && point <= '9') ||
         (point >= 0xc0 && point <= 0x24f && point != 0xd7 && point != 0xf7) || (point >= 0x410 && point <= 0x44f) ||
         (point >= 0x3041 && point <= 0x3096) || (point >= 0x4e00 && point <= 0x9fa5) ||
         (point >= 0xac00 && point <= 0xd7a3);
}

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

bool may_cut(PatternFamily family, std::string_view before, char after) {
  const char32_t last = last_point(before).point;
  if (after == ' ' || family == PatternFamily::gpt2) return !is_white_space(last);
  return surely_letter_or_digit(last);
}

/// Whether a run of line ends is over. In all patterns but GPT-2's a word ends there, and no look-ahead leaves the run.
bool ends_lines(PatternFamily family, std::string_view text, std::size_t at) {
  if (family == PatternFamily::gpt2 || !is_line_end(text[at - 1])) return false;
  const std::string_view rest = text.substr(at);
  return utf8_length(rest) == 0 || !is_white_space(first_point(rest).point);  // (U+FFFD is not white space.)
}

/// True if an added token may reach across such a cut, or see across it. (lstrip stops at what is before the cut.)
bool reaches_across(const AddedToken& token) {
  const bool inside = std::any_of(token.content.begin() + 1, token.content.end(), ascii_white);
  return inside || token.rstrip || (token.single_word && ascii_white(token.content.front()));
}

bool takes_left(const AddedMatcher& matcher) {
  return std::ranges::any_of(matcher.tokens(), [](const AddedToken& token) { return token.lstrip; });
}

}  // namespace

bool may_be_cut(const BpeDescription& description, PatternFamily family) {
  // (A prefix belongs before the text, not before each part.)
  return family != PatternFamily::other && !description.add_prefix_space &&
         std::none_of(description.added.begin(), description.added.end(), reaches_across);
}

std::size_t cut_bpe_at_or_after(const BpeTables& tables, std::string_view text, std::size_t from) {
  if (!tables.cuts) return text.size();
  const PatternFamily family = tables.pattern.family();
  // (lstrip would take the line ends.)
  const bool lines = !takes_left(tables.plain) && !takes_left(tables.normalized);
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if (ascii_white(text[at]) && may_cut(family, text.substr(0, at), text[at])) return at;
    if (lines && ends_lines(family, text, at)) return at;
  }
  return text.size();
}

}  // namespace tessera
