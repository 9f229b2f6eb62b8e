#pragma once
// The pattern that cuts text into words, through PCRE2.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tessera {

/// Patterns with a separate path for ASCII (quick_words.hpp).
enum class PatternFamily { other, gpt2, qwen2, llama3 };

class Pattern {
 public:
  /// UsageError if PCRE2 cannot read it, if it means something else to Oniguruma, or if it matches no character.
  explicit Pattern(const std::string& pattern);

  PatternFamily family() const { return family_; }

  struct Found {
    std::size_t begin, end;
  };
  /// Finds words, for one thread. Must not outlive its pattern.
  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    ~Finder();
    Finder(const Finder&) = delete;
    Finder& operator=(const Finder&) = delete;
    /// Returns the first match at or after `at` in valid UTF-8; begin = end = text.size() if there is none.
    Found next(std::string_view text, std::size_t at);

   private:
    struct Matching;
    const Pattern& pattern_;
    std::unique_ptr<Matching> matching_;
  };

 private:
  struct Code;
  std::string pattern_;
  PatternFamily family_;
  std::shared_ptr<const Code> code_;
};

/// Returns a pattern that means to PCRE2 what `pattern` means to Oniguruma. White space (\s, \S) is written out, since
/// PCRE2 counts U+180E. UsageError naming the construct and its position for what the two may read differently. Reads
/// literals, classes, \s \S \d \r \n \t, \p of categories, groups, look-around, alternatives and quantifiers.
std::string pcre2_syntax(std::string_view pattern);

}  // namespace tessera
