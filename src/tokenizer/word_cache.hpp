#pragma once
// Words and their ids, for one thread: open addressing, bounded, emptied when it is full.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 256;  ///< bytes; longer words are not kept

  WordCache() { clear(); }

  static std::uint64_t hash(std::string_view word);
  /// Returns the ids of a word with that hash, valid until the next `keep`; empty if it is not there.
  std::span<const std::int32_t> find(std::string_view word, std::uint64_t hash) const {
    for (std::size_t at = hash & mask_; entries_[at].count != 0; at = (at + 1) & mask_) {
      if (entries_[at].hash == hash && text_of(entries_[at]) == word) return ids_of(entries_[at]);
    }
    return {};
  }
  /// Keeps a word that is not there, and its ids (at least one).
  void keep(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids);

 private:
  static constexpr std::size_t kFewIds = 4;
  struct Entry {
    std::uint64_t hash = 0;
    std::uint32_t text = 0;  ///< where the word begins in text_
    std::uint16_t length = 0;
    std::uint16_t count = 0;         ///< of ids; 0 marks a free entry
    std::int32_t ids[kFewIds] = {};  ///< or, if there are more, where they begin in many_
  };
  static_assert(sizeof(Entry) == 32);

  std::string_view text_of(const Entry& entry) const { return {text_.data() + entry.text, entry.length}; }
  std::span<const std::int32_t> ids_of(const Entry& entry) const {
    if (entry.count <= kFewIds) return {entry.ids, entry.count};
    return {many_.data() + entry.ids[0], entry.count};
  }
  void clear();
  void grow();
  std::size_t free_entry(std::uint64_t hash) const;

  std::size_t mask_ = 0, used_ = 0;
  std::vector<Entry> entries_;
  std::vector<char> text_;
  std::vector<std::int32_t> many_;
};

}  // namespace tessera
