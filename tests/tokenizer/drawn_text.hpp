#pragma once
// Text over an alphabet of what tokenizers cut, join or read in two ways, and the reference vocabularies.

#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_description.hpp"

namespace tessera::test {

inline std::filesystem::path family_path(const std::string& family) {
  return std::filesystem::path(TESSERA_REFERENCE_DIR) / "tokenizers" / family / "tokenizer.json";
}
inline BpeDescription description_of(const std::string& family) { return read_tokenizer_json(family_path(family)); }

inline const std::vector<std::string> kFamilies{"gpt2", "qwen2",  "llama3",  "added",
                                                "smol", "llama2", "mistral", "gemma"};

/// Letters, digits, signs, white space of all kinds, marks, contractions, tokens and parts of them; all valid UTF-8.
inline const std::vector<std::string> kNasty{"a",
                                             "b",
                                             "S",
                                             "t",
                                             "re",
                                             "LL",
                                             "m",
                                             "d",
                                             "l",
                                             "v",
                                             "'",
                                             "'",
                                             " ",
                                             " ",
                                             " ",
                                             "\n",
                                             "\r",
                                             "\t",
                                             "\v",
                                             "0",
                                             "7",
                                             "42",
                                             "!",
                                             "=",
                                             "_",
                                             "<",
                                             "<|",
                                             "|>",
                                             "<|endoftext|>",
                                             "<|im_end|>",
                                             "<l>",
                                             "<r>",
                                             "<b>",
                                             "word",
                                             "Word",
                                             "The",
                                             " text",
                                             "\u00e9",
                                             "\u017f",
                                             "\u212a",
                                             "\u3000",
                                             "\u00a0",
                                             "\u0085",
                                             "\u2009",
                                             "\u2028",
                                             "\u180e",
                                             "\u200b",
                                             "\u0301",
                                             "\u0323",
                                             "\u0308",
                                             "e\u0301",
                                             "\u4e2d",
                                             "\u3042",
                                             "\uac00",
                                             "\u1100\u1161",
                                             "\u0663",
                                             "\u00b2",
                                             "\U0001f600",
                                             "\u200d",
                                             "\u2014",
                                             "\u0430",
                                             std::string(1, '\0'),
                                             "\x7f"};

class DrawnText {
 public:
  explicit DrawnText(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

  std::string nasty(std::size_t parts) {
    std::string text;
    for (std::size_t i = 0; i < parts; ++i) text += kNasty[below(kNasty.size())];
    return text;
  }
  std::string bytes(std::size_t count) {
    std::string text(count, '\0');
    for (char& c : text) c = static_cast<char>(below(4) == 0 ? below(256) : 0x80 + below(128));
    return text;
  }
  /// Text over a few letters and a space.
  std::string letters(std::size_t count, std::string_view of) {
    std::string text(count, '\0');
    for (char& c : text) c = of[below(of.size())];
    return text;
  }

 private:
  std::mt19937 random_;
};

/// A text as messages show it.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view kHex = "0123456789abcdef";
    out += byte >= 0x20 && byte < 0x7f ? std::string(1, c) : std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
  }
  return out;
}

}  // namespace tessera::test
