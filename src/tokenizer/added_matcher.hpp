#pragma once
// Finds added tokens in text: the leftmost, and the longest that begins there.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_description.hpp"

namespace tessera {

/// A part of a text: a token's id, or text between tokens.
struct AddedPart {
  std::optional<std::int32_t> id;
  std::string_view text;
};

class AddedMatcher {
 public:
  /// Contents are not empty and differ.
  explicit AddedMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

  /// Cuts text into parts, in order, as the tokenizers library does: single_word, lstrip and rstrip apply. Text between
  /// tokens is passed where it is not empty.
  template <class Use>
  void cut(std::string_view text, Use&& use) const {
    std::size_t done = 0, at = 0, spaces_end = 0;
    while (const std::optional<Match> match = next(text, at)) {
      at = match->end;
      const AddedToken& token = tokens_[match->token];
      if (token.ignored || (token.single_word && joins_word(text, *match))) continue;
      const std::size_t begin = token.lstrip ? spaces_before(text, done, match->begin) : match->begin;
      // (White space that a token took before is not walked over again.)
      if (token.rstrip && match->end >= spaces_end) spaces_end = spaces_after(text, match->end);
      const std::size_t end = std::max(begin, token.rstrip ? spaces_end : match->end);
      if (done < begin) use(AddedPart{std::nullopt, text.substr(done, begin - done)});
      // Nothing is left of a token of white space where the one before has taken all of it.
      if (begin < end) use(AddedPart{token.id, text.substr(begin, end - begin)});
      done = end;
    }
    if (done < text.size()) use(AddedPart{std::nullopt, text.substr(done)});
  }

 private:
  struct Match {
    std::size_t begin, end, token;
  };
  static constexpr std::int32_t kNone = -1;
  /// Of a tree over contents' bytes.
  struct Node {
    char byte = 0;
    std::int32_t child = kNone, sibling = kNone, token = kNone;
  };

  std::optional<Match> next(std::string_view text, std::size_t from) const;
  std::int32_t child_of(std::int32_t node, char byte) const;
  static bool joins_word(std::string_view text, const Match& match);
  static std::size_t spaces_before(std::string_view text, std::size_t done, std::size_t at);
  static std::size_t spaces_after(std::string_view text, std::size_t at);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::array<std::int32_t, 256> roots_{};  ///< the node of a first byte
};

}  // namespace tessera
