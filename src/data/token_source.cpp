#include "tessera/data/token_source.hpp"

#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

std::string describe(const CountedShare& share) {
  const auto percent = [](std::int64_t part, std::int64_t whole) {
    const double of_one = static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
    return fmt::format("{:.1f}%", 100 * of_one);
  };
  std::string text = fmt::format("{} of {} tokens count", percent(share.tokens, share.of_tokens),
                                 format_rate(static_cast<double>(share.of_tokens)));
  if (share.conversations == 0) return text;
  return text + fmt::format(", in {} of {} conversations",
                            percent(share.conversations - share.silent_conversations, share.conversations),
                            with_commas(share.conversations));
}

namespace {

constexpr std::int64_t kScanBlock = 1 << 16;
constexpr std::int64_t kScanAll = std::int64_t{1} << 26;

class MemoryTokens final : public TokenSource {
 public:
  MemoryTokens(std::vector<std::int32_t> tokens, std::int64_t bound) : tokens_(std::move(tokens)), bound_(bound) {
    for (const auto id : tokens_) TESSERA_ASSERT(id >= 0 && id < bound, "token {} outside 0..{}", id, bound - 1);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t id_bound() const override { return bound_; }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size() - count, "tokens {}+{} of {}", first, count, size());
    std::copy_n(tokens_.begin() + first, count, out);
  }
  std::string describe() const override { return "tokens in memory"; }

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t bound_;
};

void check_range(const TokenSource& source, std::int64_t first, std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> block(static_cast<std::size_t>(std::min(count, kScanBlock)));
  for (std::int64_t at = first; at < first + count; at += kScanBlock) {
    copy_checked(source, at, std::min(kScanBlock, first + count - at), vocab, block.data());
  }
}

}  // namespace

std::int64_t TokenSource::document_end(std::int64_t) const { throw InternalError("{} has no documents", describe()); }

std::string TokenSource::place(std::int64_t first, std::int64_t count) const {
  return fmt::format("{}, tokens {} to {}", describe(), first, first + count - 1);
}

void TokenSource::mask_targets(std::int64_t, std::int64_t, std::int32_t*) const {}

void fill_positions(const TokenSource& source, std::int64_t first, std::int64_t count, std::int32_t* out) {
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t end = std::min(count, source.document_end(first + at) - first);
    TESSERA_ASSERT(end > at, "{}: the document of token {} ends before it", source.describe(), first + at);
    std::iota(out + at, out + end, 0);
    at = end;
  }
}

void copy_checked(const TokenSource& source, std::int64_t first, std::int64_t count, std::int64_t vocab,
                  std::int32_t* out) {
  source.copy(first, count, out);
  if (source.id_bound() <= vocab) return;
  std::int32_t largest = 0;  // a plain loop that vectorises; the culprit is searched for only when there is one
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, out[i]);
  if (largest < vocab) return;
  const auto at = std::find_if(out, out + count, [&](std::int32_t id) { return id >= vocab; }) - out;
  throw refusal("{}: token {} at position {} is beyond the model's vocabulary", source.describe(), out[at], first + at)
      .use("ids 0 to {} (model.vocab = {})", vocab - 1, vocab);
}

void check_vocabulary(const TokenSource& source, std::int64_t vocab) {
  if (source.id_bound() <= vocab) return;
  if (source.size() <= kScanAll) return check_range(source, 0, source.size(), vocab);
  check_range(source, 0, kScanBlock, vocab);
  check_range(source, source.size() - kScanBlock, kScanBlock, vocab);
}

std::uint64_t fingerprint(const TokenSource& source) {
  constexpr std::int64_t blocks = 65, length = 4096;
  const std::int64_t size = source.size();
  std::uint64_t hash = XXH3_64bits(&size, sizeof size);
  std::vector<std::int32_t> block(static_cast<std::size_t>(std::min(length, size)));
  const auto add = [&](std::int64_t first) {
    const std::int64_t count = std::min(length, size - first);
    source.copy(first, count, block.data());
    hash = XXH3_64bits_withSeed(block.data(), static_cast<std::size_t>(count) * sizeof(std::int32_t), hash);
  };
  if (size <= blocks * length) {
    for (std::int64_t first = 0; first < size; first += length) add(first);
    return hash;
  }
  const std::int64_t stride = (size - length) / (blocks - 1);
  for (std::int64_t i = 0; i < blocks; ++i) add(i * stride);
  add(size - length);
  return hash;
}

std::unique_ptr<TokenSource> tokens_in_memory(std::vector<std::int32_t> tokens, std::int64_t id_bound) {
  return std::make_unique<MemoryTokens>(std::move(tokens), id_bound);
}

}  // namespace tessera
