// Where text may be cut so that both parts give the ids of the whole.

#include <algorithm>
#include <unordered_set>

#include "tessera/base/utf8.hpp"
#include "tokenizer/bpe.hpp"
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
bool reaches_across(const AddedToken& token, const std::string& mark) {
  const bool inside = std::any_of(token.content.begin() + 1, token.content.end(), ascii_white) ||
                      (!mark.empty() && token.content.find(mark, 1) != std::string::npos);
  return inside || token.rstrip || (token.single_word && ascii_white(token.content.front()));
}

bool takes_left(const AddedMatcher& matcher) {
  return std::ranges::any_of(matcher.tokens(), [](const AddedToken& token) { return token.lstrip; });
}

// Where spaces become marks, cuts are made before a space that follows something else. No word that merges make may
// have a mark behind something else, and no rule but those about marks may look at the text.

bool joins_before_mark(std::string_view spelling, std::string_view mark) {
  for (std::size_t at = spelling.find(mark, 1); at != std::string_view::npos; at = spelling.find(mark, at + 1)) {
    if (!spelling.substr(0, at).ends_with(mark)) return true;
  }
  return false;
}

bool may_cut_before_marks(const BpeDescription& description) {
  const std::string& mark = description.mark;
  // (One character, and none that means something in a pattern.)
  if (mark.size() < 2 || utf8_length(mark) != mark.size()) return false;
  if (description.byte_level || description.ignore_merges) return false;
  const TextRule at_marks{TextRule::Kind::split, mark, "", SplitBehavior::merged_with_next};
  const auto writes_mark = [&](const auto& rule) { return rule.to == mark && (rule.from.empty() || rule.from == " "); };
  const auto allowed = [&](const TextRule& rule) {
    return rule.kind == TextRule::Kind::nfc || rule == at_marks || writes_mark(rule);
  };
  std::unordered_set<std::int32_t> joined;
  bool has_mark = false;
  int bytes = 0;
  for (const auto& [spelling, id] : description.vocabulary) {
    has_mark = has_mark || spelling == mark;
    bytes += spelling.size() == 6 && spelling.starts_with("<0x") ? 1 : 0;
    if (joins_before_mark(spelling, mark)) joined.insert(id);
  }
  // (What is left out would let marks on its two sides merge.)
  const bool leaves_out = description.unknown < 0 && !(description.byte_fallback && bytes == 256);
  return has_mark && !leaves_out && std::ranges::all_of(description.normal, allowed) &&
         std::ranges::all_of(description.words, allowed) &&
         std::ranges::none_of(description.merges, [&](const Merge& merge) { return joined.contains(merge.result); });
}

std::size_t cut_before_mark(const std::string& mark, std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(' ', from); at != std::string_view::npos; at = text.find(' ', at + 1)) {
    const std::string_view before = text.substr(0, at);
    if (!is_white_space(last_point(before).point) && !before.ends_with(mark)) return at;
  }
  return text.size();
}

}  // namespace

Cuts cuts_of(const BpeDescription& description) {
  if (std::ranges::any_of(description.added,
                          [&](const AddedToken& token) { return reaches_across(token, description.mark); }))
    return Cuts::nowhere;
  if (may_cut_before_marks(description)) return Cuts::before_marks;
  const bool known = WordRules(description.words).family() != PatternFamily::other;
  const bool plain =
      std::ranges::all_of(description.normal, [](const TextRule& rule) { return rule.kind == TextRule::Kind::nfc; });
  return known && plain ? Cuts::between_words : Cuts::nowhere;
}

std::size_t cut_bpe_at_or_after(const BpeTables& tables, std::string_view text, std::size_t from) {
  from = std::max<std::size_t>(from, 1);
  if (tables.cuts == Cuts::nowhere) return text.size();
  if (tables.cuts == Cuts::before_marks) return cut_before_mark(tables.mark, text, from);
  const PatternFamily family = tables.words.family();
  // (lstrip would take the line ends.)
  const bool lines = !takes_left(tables.plain) && !takes_left(tables.normalized);
  for (std::size_t at = from; at < text.size(); ++at) {
    if (ascii_white(text[at]) && may_cut(family, text.substr(0, at), text[at])) return at;
    if (lines && ends_lines(family, text, at)) return at;
  }
  return text.size();
}

}  // namespace tessera
