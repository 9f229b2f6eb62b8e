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
  /// UsageError if a byte that occurs in UTF-8 has no token.
  explicit Vocabulary(const BpeDescription& description);
  Vocabulary(const Vocabulary&) = delete;  // the maps look into bytes_
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// Returns the bytes of an id; nothing if the id has no token.
  std::optional<std::string_view> bytes_of(std::int32_t id) const;
  /// Returns the token of a whole word; nothing if there is none that merges could reach.
  std::optional<std::int32_t> word(std::string_view bytes) const;
  /// Returns the id of an added token's content, or of a spelling.
  std::optional<std::int32_t> id_of(std::string_view token) const;
  /// The token of each byte; -1 for bytes that UTF-8 does not have.
  const std::array<std::int32_t, 256>& of_byte() const { return of_byte_; }
  /// Returns 1 + the largest id.
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::vector<std::optional<std::string>> bytes_;  ///< by id
  std::unordered_map<std::string_view, std::int32_t> words_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> of_byte_{};
};

}  // namespace tessera
