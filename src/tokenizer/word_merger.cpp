#include "tokenizer/word_merger.hpp"

#include <algorithm>
#include <functional>

#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLargeScratch = std::size_t{1} << 20;  // entries: more is given back after the word
constexpr std::size_t kLongestWord = (std::size_t{1} << 31) - 1;

}  // namespace

template <class Token>
std::span<const std::int32_t> WordMerger::merge_tokens(std::size_t count, Token token) {
  if (count > kLongestWord)
    throw refusal("a word begins as {} tokens, because the tokenizer's pattern does not cut it", count)
        .use("at most {}", kLongestWord);
  if (count > kShort) cells_.resize(count);
  std::int32_t* tokens = count > kShort ? cells_.data() : ids_.data();
  for (std::size_t i = 0; i < count; ++i) tokens[i] = token(i);
  return count > kShort ? merge_long() : merge_short(count);
}

std::span<const std::int32_t> WordMerger::merge(std::string_view word) {
  return merge_tokens(word.size(), [&](std::size_t i) { return of_byte_[static_cast<unsigned char>(word[i])]; });
}

std::span<const std::int32_t> WordMerger::merge(std::span<const std::int32_t> begins) {
  return merge_tokens(begins.size(), [&](std::size_t i) { return begins[i]; });
}

std::span<const std::int32_t> WordMerger::merge_short(std::size_t count) {
  for (std::size_t i = 0; i + 1 < count; ++i) ranks_[i] = table_.rank(ids_[i], ids_[i + 1]);
  while (count > 1) {  // ranks_[i] is of tokens i and i + 1
    const auto end = ranks_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    const auto lowest = std::min_element(ranks_.begin(), end);
    if (*lowest == kNoRank) break;
    const auto i = static_cast<std::size_t>(lowest - ranks_.begin());
    ids_[i] = table_[*lowest].result;
    const auto gone = ids_.begin() + static_cast<std::ptrdiff_t>(i + 1);
    std::copy(gone + 1, ids_.begin() + static_cast<std::ptrdiff_t>(count), gone);
    std::copy(lowest + 1, end, lowest);
    --count;
    if (i > 0) ranks_[i - 1] = table_.rank(ids_[i - 1], ids_[i]);
    if (i + 1 < count) ranks_[i] = table_.rank(ids_[i], ids_[i + 1]);
  }
  return {ids_.data(), count};
}

void WordMerger::Bucket::add(std::uint32_t start) {
  starts.push_back(start);
  if (heap) std::push_heap(starts.begin(), starts.end(), std::greater<>());
}

void WordMerger::Bucket::become_heap() {
  if (heap) return;
  starts.erase(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(done));  // sorted: a heap already
  done = 0;
  heap = true;
}

std::uint32_t WordMerger::Bucket::take() {
  if (!heap) return starts[done++];
  std::pop_heap(starts.begin(), starts.end(), std::greater<>());
  const std::uint32_t start = starts.back();
  starts.pop_back();
  return start;
}

std::uint32_t WordMerger::end_of(std::uint32_t start) const {
  const std::uint32_t second = start + 1;
  return second < cells_.size() && cells_[second] < 0 ? start + static_cast<std::uint32_t>(-cells_[second]) : second;
}

void WordMerger::push(std::uint32_t rank, std::uint32_t start) {
  if (rank == kNoRank) return;
  std::uint32_t& number = bucket_of_rank_[rank];
  if (number == kNoRank) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(buckets_.size()));
      buckets_.emplace_back();
    }
    number = free_.back();
    free_.pop_back();
    buckets_[number].rank = rank;
    waiting_.push_back(rank);
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }
  buckets_[number].add(start);
}

/// Merges the token at `start` with the one at `right`; returns the lowest rank of the pairs that this makes.
std::uint32_t WordMerger::merge_at(std::uint32_t start, std::uint32_t right, std::int32_t result) {
  const std::uint32_t end = end_of(right);
  const auto length = -static_cast<std::int32_t>(end - start);
  cells_[start] = result;
  cells_[right] = length;  // begins no token any more
  cells_[start + 1] = length;
  cells_[end - 1] = length;
  std::uint32_t lowest = kNoRank;
  if (start > 0) {
    const std::int32_t before = cells_[start - 1];
    const std::uint32_t left = before < 0 ? start - static_cast<std::uint32_t>(-before) : start - 1;
    lowest = table_.rank(cells_[left], result);
    push(lowest, left);
  }
  if (end < cells_.size()) {
    const std::uint32_t rank = table_.rank(result, cells_[end]);
    push(rank, start);
    lowest = std::min(lowest, rank);
  }
  return lowest;
}

/// Merges the pairs of a bucket from left to right. Returns false if a pair of a lower rank came up, which goes first.
bool WordMerger::merge_bucket(std::uint32_t number) {
  const std::uint32_t rank = buckets_[number].rank;
  const Merge merge = table_[rank];
  {
    Bucket& bucket = buckets_[number];
    if (!bucket.heap && !std::is_sorted(bucket.starts.begin(), bucket.starts.end()))
      std::sort(bucket.starts.begin(), bucket.starts.end());
  }
  // (Merging may add buckets and so move them, but adds no start to this one: a pair with the merged token is another.)
  while (!buckets_[number].empty()) {
    const std::uint32_t start = buckets_[number].take();
    if (cells_[start] != merge.left) continue;
    const std::uint32_t right = end_of(start);
    if (right >= cells_.size() || cells_[right] != merge.right) continue;
    if (merge_at(start, right, merge.result) < rank) {
      buckets_[number].become_heap();
      return false;
    }
  }
  return true;
}

std::span<const std::int32_t> WordMerger::merge_long() {
  bucket_of_rank_.resize(table_.size(), kNoRank);
  for (std::size_t i = 0; i + 1 < cells_.size(); ++i)
    push(table_.rank(cells_[i], cells_[i + 1]), static_cast<std::uint32_t>(i));
  while (!waiting_.empty()) {
    const std::uint32_t rank = waiting_.front();
    const std::uint32_t number = bucket_of_rank_[rank];
    std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    waiting_.pop_back();
    if (!merge_bucket(number)) {
      waiting_.push_back(rank);
      std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
      continue;
    }
    bucket_of_rank_[rank] = kNoRank;
    buckets_[number].starts.clear();
    buckets_[number].done = 0;
    buckets_[number].heap = false;
    free_.push_back(number);
  }
  std::size_t count = 0;
  for (std::uint32_t start = 0; start < cells_.size();) {
    const std::uint32_t end = end_of(start);
    cells_[count++] = cells_[start];
    start = end;
  }
  cells_.resize(count);
  release_large();
  return cells_;
}

/// Frees the memory that only a huge word needs.
void WordMerger::release_large() {
  if (cells_.capacity() > kLargeScratch) cells_.shrink_to_fit();
  std::size_t kept = 0;
  for (const Bucket& bucket : buckets_) kept += bucket.starts.capacity();
  if (kept <= kLargeScratch) return;
  buckets_.clear();
  free_.clear();
}

}  // namespace tessera
