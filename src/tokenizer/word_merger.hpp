#pragma once
// BPE of one word: the pair of the lowest rank merges first, the leftmost of several.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.hpp"

namespace tessera {

/// Merges words; keeps its scratch between calls. `table` and `of_byte` (each byte's token) outlive it.
class WordMerger {
 public:
  WordMerger(const MergeTable& table, const std::array<std::int32_t, 256>& of_byte)
      : table_(table), of_byte_(of_byte) {}

  /// Returns the ids of a word of 1 to 2^31 - 1 bytes, valid until the next call. In short words the lowest rank is
  /// searched after each merge. Long ones keep positions by rank: linear time, apart from sorting.
  std::span<const std::int32_t> merge(std::string_view word);
  /// The same of a word that begins as these tokens, none of them negative.
  std::span<const std::int32_t> merge(std::span<const std::int32_t> begins);

 private:
  static constexpr std::size_t kShort = 128;
  /// The positions where a pair of one rank begins, to be merged from left to right. A list that is sorted and walked;
  /// a heap after a lower rank came in between, which may have added positions anywhere.
  struct Bucket {
    std::uint32_t rank = 0;
    bool heap = false;
    std::size_t done = 0;  ///< of a list
    std::vector<std::uint32_t> starts;

    void add(std::uint32_t start);
    void become_heap();
    bool empty() const { return done == starts.size(); }
    std::uint32_t take();
  };

  template <class Token>
  std::span<const std::int32_t> merge_tokens(std::size_t count, Token token);
  std::span<const std::int32_t> merge_short(std::size_t count);
  std::span<const std::int32_t> merge_long();
  void push(std::uint32_t rank, std::uint32_t start);
  bool merge_bucket(std::uint32_t number);
  std::uint32_t merge_at(std::uint32_t start, std::uint32_t right, std::int32_t result);
  std::uint32_t end_of(std::uint32_t start) const;
  void release_large();

  const MergeTable& table_;
  const std::array<std::int32_t, 256>& of_byte_;
  std::array<std::int32_t, kShort> ids_{};
  std::array<std::uint32_t, kShort> ranks_{};
  // Long words, with one cell per first token. A token of one cell is its id. A longer one is its id, then minus its
  // length in its second and its last cell; cells in between are negative. So a cell that is not negative begins a
  // token.
  std::vector<std::int32_t> cells_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_;            ///< buckets without a rank
  std::vector<std::uint32_t> bucket_of_rank_;  ///< kNoRank: none
  std::vector<std::uint32_t> waiting_;         ///< a heap of ranks, lowest on top
};

}  // namespace tessera
