#include "tokenizer/merge_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

MergeTable::MergeTable(std::vector<Merge> by_rank)
    : by_rank_(std::move(by_rank)),
      mask_(std::bit_ceil(std::max<std::size_t>(4 * by_rank_.size(), 16)) - 1),
      slots_(mask_ + 1) {
  for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank) {
    const std::uint64_t pair = key(by_rank_[rank].left, by_rank_[rank].right);
    std::size_t at = slot(pair);
    for (; slots_[at].pair != kEmpty; at = (at + 1) & mask_)
      TESSERA_ASSERT(slots_[at].pair != pair, "merges {} and {} are of one pair", slots_[at].rank, rank);
    slots_[at] = {pair, rank};
  }
}

}  // namespace tessera
