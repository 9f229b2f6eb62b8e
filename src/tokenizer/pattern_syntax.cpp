#include <array>
#include <cctype>
#include <utility>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tokenizer/pattern.hpp"

namespace tessera {

namespace {

// Unicode's White_Space, and all else, as parts of a class.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string translate() {
    while (at_ < pattern_.size()) element();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw refusal("the pattern has {} at byte {}, which libraries read differently", what, at_)
        .use("only literals, classes, \\s \\S \\d \\r \\n \\t, \\p of categories, groups and quantifiers");
  }
  bool has(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void keep(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void element() {
    switch (pattern_[at_]) {
      case '\\':
        return escape(false);
      case '[':
        return character_class();
      case '(':
        return group();
      case '^':
      case '$':
      case '.':
        refuse(pattern_.substr(at_, 1));
      case '?':
      case '*':
      case '+':
      case '{':
        return quantifier();
      default:  // literals, | and )
        return keep(1);
    }
  }

  void escape(bool in_class) {
    if (at_ + 1 == pattern_.size()) refuse("a \\ as its last character");
    const char which = pattern_[at_ + 1];
    if (which == 's' || which == 'S') {
      const std::string_view part = which == 's' ? kSpace : kNoSpace;
      out_ += in_class ? std::string(part) : "[" + std::string(part) + "]";
      at_ += 2;
    } else if (which == 'p' || which == 'P') {
      category();
    } else if (which == 'd' || which == 'r' || which == 'n' || which == 't' ||
               std::ispunct(static_cast<unsigned char>(which)) != 0) {
      keep(2);
    } else {
      refuse(shown(pattern_.substr(at_, 2)));
    }
  }

  /// \p{L}, \P{Lu}: scripts mean other sets to the two libraries.
  void category() {
    const std::size_t end = pattern_.find('}', at_);
    if (pattern_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) refuse("\\p without {...}");
    const std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    static constexpr std::array<std::string_view, 37> kCategories{
        "L",  "Ll", "Lu", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
        "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
        "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};
    for (const std::string_view category : kCategories) {
      if (name == category) return keep(end + 1 - at_);
    }
    refuse("\\p{" + shown(name, 20) + "}");
  }

  void character_class() {
    keep(has("[^") ? 2 : 1);
    if (has("]")) refuse("an empty class, or ] as its first character");
    while (!has("]")) {
      if (at_ == pattern_.size()) refuse("a class without an end");
      if (has("[") || has("&&")) refuse("a class within a class");
      const bool ends_range = out_.ends_with('-') && !out_.ends_with("[-") && !out_.ends_with("[^-");
      if (!has("\\")) {
        keep(1);
        continue;
      }
      const bool set =
          at_ + 1 < pattern_.size() && std::string_view("sSpPd").find(pattern_[at_ + 1]) != std::string_view::npos;
      if (set && ends_range) refuse("a range that ends in a set");
      escape(true);
      if (set && has("-") && !has("-]")) refuse("a range that begins with a set");
    }
    keep(1);
  }

  void group() {
    if (has("(?i:")) return caseless();
    for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!"}) {
      if (has(opening)) return keep(opening.size());
    }
    if (has("(?") || has("(*")) refuse(shown(pattern_.substr(at_, 3)));
    keep(1);
  }

  /// (?i:'s|'t): letters and apostrophes only, and no pair that folds into one character (ß, ligatures).
  void caseless() {
    const std::size_t end = pattern_.find(')', at_);
    if (end == std::string_view::npos) refuse("a group without an end");
    const std::string_view body = pattern_.substr(at_ + 4, end - at_ - 4);
    for (const char c : body) {
      const bool plain = c == '\'' || c == '|' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!plain) refuse("a caseless group of more than letters, ' and |");
    }
    std::string lower(body);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const char* pair : {"ff", "fi", "fl", "ss", "st"}) {
      if (lower.find(pair) != std::string::npos) refuse(std::string("a caseless ") + pair);
    }
    keep(end + 1 - at_);
  }

  void quantifier() {
    if (has("{")) {
      const std::size_t end = pattern_.find('}', at_);
      const std::string_view inside =
          end == std::string_view::npos ? std::string_view() : pattern_.substr(at_ + 1, end - at_ - 1);
      const bool counts =
          !inside.empty() && inside.front() != ',' && inside.find_first_not_of("0123456789,") == std::string_view::npos;
      if (!counts) refuse("a { that does not begin {n}, {n,} or {n,m}");
      keep(end + 1 - at_);
      if (has("+") || has("?")) refuse("{...} followed by + or ?");  // Ruby repeats, PCRE2 holds or is lazy
    } else {
      keep(1);
      if (has("?") || has("+")) keep(1);  // lazy, possessive
    }
    if (has("?") || has("*") || has("+") || has("{")) refuse("a quantifier of a quantifier");
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string pcre2_syntax(std::string_view pattern) { return Translator(pattern).translate(); }

}  // namespace tessera
