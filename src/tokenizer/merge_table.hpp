#pragma once
// Ranks of pairs of tokens: open addressing, read by all threads.

#include <cstdint>
#include <vector>

#include "tokenizer/bpe_description.hpp"

namespace tessera {

constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

class MergeTable {
 public:
  /// `by_rank` has no pair twice.
  explicit MergeTable(std::vector<Merge> by_rank);

  /// Returns the rank of a pair, kNoRank if it does not merge.
  std::uint32_t rank(std::int32_t left, std::int32_t right) const {
    const std::uint64_t pair = key(left, right);
    for (std::size_t at = slot(pair);; at = (at + 1) & mask_) {
      if (slots_[at].pair == pair) return slots_[at].rank;
      if (slots_[at].pair == kEmpty) return kNoRank;
    }
  }
  const Merge& operator[](std::uint32_t rank) const { return by_rank_[rank]; }
  std::size_t size() const { return by_rank_.size(); }

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    std::uint32_t rank = kNoRank;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot(std::uint64_t pair) const {
    const std::uint64_t mixed = (pair ^ pair >> 29) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 32) & mask_;
  }

  std::vector<Merge> by_rank_;
  std::size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace tessera
