#pragma once
// Finds the words of the known families in ASCII text by hand: cut as by their patterns, but some thirty times as fast.
// PCRE2 is the reference (tests/tokenizer/test_quick_words.cpp).

#include <array>
#include <cstddef>
#include <string_view>

#include "tokenizer/pattern.hpp"

namespace tessera {

/// The kinds of bytes that patterns tell apart.
enum class ByteKind : unsigned char { other, letter, digit, space, line_end, beyond_ascii };

constexpr std::array<ByteKind, 256> kByteKinds = [] {
  std::array<ByteKind, 256> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = i >= 0x80                                          ? ByteKind::beyond_ascii
               : (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z') ? ByteKind::letter
               : i >= '0' && i <= '9'                             ? ByteKind::digit
               : i == '\n' || i == '\r'                           ? ByteKind::line_end
               : i == ' ' || i == '\t' || i == '\v' || i == '\f'  ? ByteKind::space
                                                                  : ByteKind::other;
  }
  return kinds;
}();

/// Cuts words off one text.
template <PatternFamily kFamily>
class QuickWords {
 public:
  explicit QuickWords(std::string_view text) : text_(text) {}

  /// Returned where a character that is not ASCII decides, so that the pattern has to be asked.
  static constexpr std::size_t kAsk = 0;

  /// Returns where the word that begins at `at` (< size) ends, or kAsk.
  std::size_t end_of_word(std::size_t at) const {
    const ByteKind first = kind(at);
    if (first == ByteKind::letter) return run(at + 1, ByteKind::letter);
    if (first == ByteKind::beyond_ascii) return kAsk;
    if (text_[at] == '\'') {
      const std::size_t end = contraction(at);
      if (end != at) return end;
    }
    if constexpr (kFamily == PatternFamily::gpt2) {
      if (text_[at] == ' ' && at + 1 < text_.size()) {
        const ByteKind second = kind(at + 1);
        if (second == ByteKind::beyond_ascii) return kAsk;
        if (!white(second)) return run(at + 2, second);
      }
      if (first == ByteKind::digit || first == ByteKind::other) return run(at + 1, first);
      return white_space(at);
    } else {
      if (first == ByteKind::digit) return digits(at);
      return word_or_signs(at, first);
    }
  }

 private:
  ByteKind kind(std::size_t at) const { return kByteKinds[static_cast<unsigned char>(text_[at])]; }
  static bool white(ByteKind kind) { return kind == ByteKind::space || kind == ByteKind::line_end; }

  /// Returns the end of a run of one kind; the text just before `at` is of this kind.
  std::size_t run(std::size_t at, ByteKind of) const {
    while (at < text_.size() && kind(at) == of) ++at;
    return at < text_.size() && kind(at) == ByteKind::beyond_ascii ? kAsk : at;
  }

  /// 's 't 're 've 'm 'll 'd; returns `at` where none is. GPT-2's are in lower case only; the others' s may be U+017F.
  std::size_t contraction(std::size_t at) const {
    const auto letter = [&](std::size_t i) {
      if (i >= text_.size()) return '\0';
      if constexpr (kFamily == PatternFamily::gpt2) return text_[i];
      return kind(i) == ByteKind::letter ? static_cast<char>(text_[i] | 0x20) : text_[i];
    };
    const char one = letter(at + 1), two = letter(at + 2);
    if (kFamily != PatternFamily::gpt2 && static_cast<unsigned char>(one) >= 0x80) return kAsk;
    if (one == 's' || one == 't' || one == 'm' || one == 'd') return at + 2;
    if ((two == 'e' && (one == 'r' || one == 'v')) || (one == 'l' && two == 'l')) return at + 3;
    return at;
  }

  /// Qwen2: one digit is a word. Llama-3: up to three are.
  std::size_t digits(std::size_t at) const {
    if constexpr (kFamily == PatternFamily::qwen2) return at + 1;
    std::size_t end = at + 1;
    while (end < text_.size() && end < at + 3 && kind(end) == ByteKind::digit) ++end;
    return end < at + 3 && end < text_.size() && kind(end) == ByteKind::beyond_ascii ? kAsk : end;
  }

  /// A character and the letters after it, or signs and the line ends after them, or white space.
  std::size_t word_or_signs(std::size_t at, ByteKind first) const {
    if (first != ByteKind::line_end && at + 1 < text_.size()) {
      const ByteKind second = kind(at + 1);
      if (second == ByteKind::letter) return run(at + 2, ByteKind::letter);
      if (second == ByteKind::beyond_ascii) return kAsk;
      if (text_[at] == ' ' && second == ByteKind::other) return signs(at + 2);
    }
    return first == ByteKind::other ? signs(at + 1) : white_space(at);
  }
  std::size_t signs(std::size_t at) const {
    std::size_t end = run(at, ByteKind::other);
    while (end != kAsk && end < text_.size() && kind(end) == ByteKind::line_end) ++end;
    return end;
  }

  /// White space ends after its last line end (not in GPT-2). Without one it ends before its last character if text
  /// follows, because that character is left to the next word.
  std::size_t white_space(std::size_t at) const {
    std::size_t end = at, last_line_end = 0;
    for (; end < text_.size() && white(kind(end)); ++end) {
      if (kind(end) == ByteKind::line_end) last_line_end = end + 1;
    }
    if (end < text_.size() && kind(end) == ByteKind::beyond_ascii) return kAsk;
    if (kFamily != PatternFamily::gpt2 && last_line_end > 0) return last_line_end;
    return end == text_.size() || end == at + 1 ? end : end - 1;
  }

  std::string_view text_;
};

}  // namespace tessera
