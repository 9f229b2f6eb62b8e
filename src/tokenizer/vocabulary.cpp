#include "tokenizer/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/code_points.hpp"

namespace tessera {

namespace {

constexpr bool in_utf8(unsigned byte) { return byte < 0xf5 && byte != 0xc0 && byte != 0xc1; }

std::string fallback_of(unsigned byte) { return fmt::format("<0x{:02X}>", byte); }

std::size_t ids_of(const BpeDescription& description) {
  std::int32_t largest = -1;
  for (const VocabularyEntry& entry : description.vocabulary) largest = std::max(largest, entry.id);
  for (const AddedToken& token : description.added) largest = std::max(largest, token.id);
  return static_cast<std::size_t>(largest) + 1;
}

/// Returns a spelling with spaces for marks.
std::string with_spaces(std::string spelling, const std::string& mark) {
  if (mark.empty()) return spelling;
  for (std::size_t at = spelling.find(mark); at != std::string::npos; at = spelling.find(mark, at + 1))
    spelling.replace(at, mark.size(), " ");
  return spelling;
}

}  // namespace

Vocabulary::Vocabulary(const BpeDescription& description)
    : bytes_(ids_of(description)),
      byte_level_(description.byte_level),
      byte_fallback_(description.byte_fallback),
      fuse_unknown_(description.fuse_unknown),
      unknown_(description.unknown) {
  ids_.reserve(description.vocabulary.size() + description.added.size());
  words_.reserve(description.vocabulary.size());
  for (const auto& [spelling, id] : description.vocabulary) {
    auto& bytes = bytes_[static_cast<std::size_t>(id)];
    const auto entry = ids_.emplace(spelling, id).first;
    bytes = byte_level_ ? bytes_of_spelling(spelling) : with_spaces(spelling, description.mark);
    if (bytes) words_.emplace(byte_level_ ? std::string_view(*bytes) : std::string_view(entry->first), id);
    if (!bytes) bytes = spelling;
  }
  for (unsigned byte = 0; byte < of_byte_.size(); ++byte) {
    const auto id = id_of(spelling_of(static_cast<unsigned char>(byte))), other = id_of(fallback_of(byte));
    of_byte_[byte] = byte_level_ && id ? *id : -1;
    fallback_[byte] = other.value_or(-1);
    if (byte_fallback_ && !byte_level_ && other)
      bytes_[static_cast<std::size_t>(*other)] = std::string(1, static_cast<char>(static_cast<unsigned char>(byte)));
  }
  has_all_bytes_ = byte_level_;
  for (unsigned byte = 0; byte < of_byte_.size(); ++byte)
    has_all_bytes_ = has_all_bytes_ && (of_byte_[byte] >= 0 || !in_utf8(byte));
  for (const AddedToken& token : description.added) {
    ids_.emplace(token.content, token.id);
    auto& bytes = bytes_[static_cast<std::size_t>(token.id)];
    if (!bytes) bytes = token.content;
  }
}

bool Vocabulary::add_fallback(std::string_view character, std::vector<std::int32_t>& ids) const {
  if (!byte_fallback_) return false;
  const auto of = [&](char c) { return fallback_[static_cast<unsigned char>(c)]; };
  if (std::ranges::any_of(character, [&](char c) { return of(c) < 0; })) return false;
  for (const char c : character) ids.push_back(of(c));
  return true;
}

std::string Vocabulary::begin_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::string lost;
  bool waits = false;  // an unknown token, which bytes do not end
  for (std::size_t length = 0; !word.empty(); word.remove_prefix(length)) {
    length = byte_level_ ? 1 : first_point(word).length;
    const std::string_view character = word.substr(0, length);
    const auto byte = static_cast<unsigned char>(character[0]);
    const auto known = byte_level_ ? words_.end() : words_.find(character);
    const std::int32_t id = byte_level_ ? of_byte_[byte] : known == words_.end() ? -1 : known->second;
    if (id >= 0) {
      if (waits) ids.push_back(unknown_);
      waits = false;
      ids.push_back(id);
    } else if (!add_fallback(byte_level_ ? spelling_of(byte) : character, ids)) {
      if (unknown_ < 0 && lost.empty())
        lost = byte_level_ ? fmt::format("byte 0x{:02x}", byte)
                           : fmt::format("U+{:04X}", static_cast<unsigned>(first_point(word).point));
      if (unknown_ >= 0 && waits && !fuse_unknown_) ids.push_back(unknown_);
      waits = unknown_ >= 0;
    }
  }
  if (waits) ids.push_back(unknown_);
  return lost;
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
