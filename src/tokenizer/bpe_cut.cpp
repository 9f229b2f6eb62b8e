// Where text may be cut so that both parts give the ids of the whole.

#include <algorithm>

#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/code_points.hpp"

namespace tessera {

namespace {

// Cuts are made before ASCII white space that follows something else. In the known families' patterns a word that has
// another character ends before white space. One exception: signs take the line ends after them (not in GPT-2). Words
// after the cut depend on what follows it alone, and no look-ahead leaves the run of white space. Normal form C joins
// nothing to white space.

bool ascii_white(char c) {
  return static_cast<unsigned char>(c) < 0x80 && is_white_space(static_cast<unsigned char>(c));
}

/// True for characters that are letters or digits in every version of Unicode; false for some that are, too.
bool surely_letter_or_digit(char32_t point) {
  return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z') || (point >= '0' && point <= '9') ||
         (point >= 0xc0 && point <= 0x24f && point != 0xd7 && point != 0xf7) || (point >= 0x410 && point <= 0x44f) ||
         (point >= 0x3041 && point <= 0x3096) || (point >= 0x4e00 && point <= 0x9fa5) ||
         (point >= 0xac00 && point <= 0xd7a3);
}

bool may_cut(PatternFamily family, std::string_view before, char after) {
  const char32_t last = last_point(before).point;
  if (after == ' ' || family == PatternFamily::gpt2) return !is_white_space(last);
  return surely_letter_or_digit(last);
}

/// True if an added token may reach across such a cut, or see across it. (lstrip stops at what is before the cut.)
bool reaches_across(const AddedToken& token) {
  const bool inside = std::any_of(token.content.begin() + 1, token.content.end(), ascii_white);
  return inside || token.rstrip || (token.single_word && ascii_white(token.content.front()));
}

}  // namespace

bool may_be_cut(const BpeDescription& description, PatternFamily family) {
  return family != PatternFamily::other &&
         std::none_of(description.added.begin(), description.added.end(), reaches_across);
}

std::size_t cut_bpe_at_or_after(const BpeTables& tables, std::string_view text, std::size_t from) {
  if (!tables.cuts) return text.size();
  const PatternFamily family = tables.pattern.family();
  for (std::size_t at = std::max<std::size_t>(from, 1); at < text.size(); ++at) {
    if (ascii_white(text[at]) && may_cut(family, text.substr(0, at), text[at])) return at;
  }
  return text.size();
}

}  // namespace tessera
