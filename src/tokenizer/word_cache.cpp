#include "tokenizer/word_cache.hpp"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tessera {

namespace {

constexpr std::size_t kFirstEntries = 1 << 10;
constexpr std::size_t kMostEntries = 1 << 17;  // 4 MiB, half of it used
constexpr std::size_t kMostText = 1 << 21;
constexpr std::size_t kMostManyIds = 1 << 19;

}  // namespace

std::uint64_t WordCache::hash(std::string_view word) { return XXH3_64bits(word.data(), word.size()); }

void WordCache::clear() {
  if (entries_.empty()) entries_.resize(kFirstEntries);
  std::fill(entries_.begin(), entries_.end(), Entry{});
  mask_ = entries_.size() - 1;
  used_ = 0;
  text_.clear();
  many_.clear();
}

std::size_t WordCache::free_entry(std::uint64_t hash) const {
  std::size_t at = hash & mask_;
  while (entries_[at].count != 0) at = (at + 1) & mask_;
  return at;
}

void WordCache::grow() {
  std::vector<Entry> old(2 * entries_.size());
  old.swap(entries_);
  mask_ = entries_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.count != 0) entries_[free_entry(entry.hash)] = entry;
  }
}

void WordCache::keep(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids) {
  if (word.size() > kLongestWord) return;
  if (2 * used_ >= entries_.size() && entries_.size() < kMostEntries) grow();
  if (2 * used_ >= entries_.size() || text_.size() + word.size() > kMostText ||
      many_.size() + ids.size() > kMostManyIds)
    clear();
  Entry entry{hash,
              static_cast<std::uint32_t>(text_.size()),
              static_cast<std::uint16_t>(word.size()),
              static_cast<std::uint16_t>(ids.size()),
              {}};
  text_.insert(text_.end(), word.begin(), word.end());
  if (ids.size() <= kFewIds) {
    std::copy(ids.begin(), ids.end(), entry.ids);
  } else {
    entry.ids[0] = static_cast<std::int32_t>(many_.size());
    many_.insert(many_.end(), ids.begin(), ids.end());
  }
  entries_[free_entry(hash)] = entry;
  ++used_;
}

}  // namespace tessera
