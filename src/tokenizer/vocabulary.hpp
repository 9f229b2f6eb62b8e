#pragma once
// Ids and the bytes that they stand for.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe_description.hpp"

namespace tessera {

class Vocabulary {
 public:
  explicit Vocabulary(const BpeDescription& description);
  Vocabulary(const Vocabulary&) = delete;  // the map of words looks into bytes_ and ids_
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// Returns the bytes of an id; nothing if the id has no token.
  std::optional<std::string_view> bytes_of(std::int32_t id) const;
  /// Returns the token of a whole word; nothing if there is none that merges could reach.
  std::optional<std::int32_t> word(std::string_view bytes) const;
  /// Returns the id of an added token's content, or of a spelling.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// The token of each byte in a vocabulary of bytes; -1 where there is none.
  const std::array<std::int32_t, 256>& of_byte() const { return of_byte_; }
  /// Whether every byte of UTF-8 has a token, so that merges begin with those of of_byte().
  bool has_all_bytes() const { return has_all_bytes_; }
  /// Appends the tokens with which merges of a word begin, one for each character that has one, as the tokenizers
  /// library does. Returns the first character (or byte) that has none, and that no other token stands for; empty if
  /// all have one.
  std::string begin_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  /// Returns 1 + the largest id.
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  bool add_fallback(std::string_view character, std::vector<std::int32_t>& ids) const;

  std::vector<std::optional<std::string>> bytes_;  ///< by id
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string_view, std::int32_t> words_;
  std::array<std::int32_t, 256> of_byte_{}, fallback_{};
  bool byte_level_, has_all_bytes_ = false, byte_fallback_, fuse_unknown_;
  std::int32_t unknown_;
};

}  // namespace tessera
