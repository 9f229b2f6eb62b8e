#include "tokenizer/vocabulary.hpp"

#include <algorithm>

#include "tessera/base/refuse.hpp"
#include "tokenizer/byte_alphabet.hpp"

namespace tessera {

namespace {

constexpr bool in_utf8(unsigned byte) { return byte < 0xf5 && byte != 0xc0 && byte != 0xc1; }

std::size_t ids_of(const BpeDescription& description) {
  std::int32_t largest = -1;
  for (const VocabularyEntry& entry : description.vocabulary) largest = std::max(largest, entry.id);
  for (const AddedToken& token : description.added) largest = std::max(largest, token.id);
  return static_cast<std::size_t>(largest) + 1;
}

}  // namespace

Vocabulary::Vocabulary(const BpeDescription& description) : bytes_(ids_of(description)) {
  ids_.reserve(description.vocabulary.size() + description.added.size());
  words_.reserve(description.vocabulary.size());
  for (const auto& [spelling, id] : description.vocabulary) {
    auto& bytes = bytes_[static_cast<std::size_t>(id)];
    bytes = bytes_of_spelling(spelling);
    if (bytes) {
      words_.emplace(*bytes, id);
    } else {
      bytes = spelling;
    }
    ids_.emplace(spelling, id);
  }
  of_byte_.fill(-1);
  for (unsigned byte = 0; byte < of_byte_.size(); ++byte) {
    const auto found = ids_.find(std::string(spelling_of(static_cast<unsigned char>(byte))));
    if (found != ids_.end()) {
      of_byte_[byte] = found->second;
    } else if (in_utf8(byte)) {
      throw refusal("{}: the vocabulary lacks byte 0x{:02x}, written {:?}, but only byte-level BPE is supported",
                    description.file, byte, std::string(spelling_of(static_cast<unsigned char>(byte))));
    }
  }
  for (const AddedToken& token : description.added) {
    ids_.emplace(token.content, token.id);
    auto& bytes = bytes_[static_cast<std::size_t>(token.id)];
    if (!bytes) bytes = token.content;
  }
}

std::optional<std::string_view> Vocabulary::bytes_of(std::int32_t id) const {
  if (id < 0 || id >= size() || !bytes_[static_cast<std::size_t>(id)]) return std::nullopt;
  return *bytes_[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Vocabulary::word(std::string_view bytes) const {
  const auto found = words_.find(bytes);
  return found == words_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tessera
