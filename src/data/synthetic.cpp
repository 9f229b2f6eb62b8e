#include <algorithm>
#include <array>
#include <bit>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/error.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kPiece = 256;  ///< a new start after this many tokens makes any position cheap to reach

// Streams of the seed's random numbers.
constexpr std::uint32_t kSuccessors = 1, kStarts = 2, kChoices = 3, kWords = 4;

/// Draws tokens by Zipf's law: token k with a probability proportional to 1 / (k + 1).
class Zipf {
 public:
  Zipf(std::uint64_t seed, std::int64_t vocab)
      : seed_(seed),
        vocab_(static_cast<std::uint64_t>(vocab)),
        octaves_(static_cast<std::uint32_t>(std::bit_width(vocab_))) {}

  /// Returns draw number `counter` of a stream. Computed in integers, so that it is the same on every machine. Draws a
  /// rank from an octave of equal weight, and accepts it in proportion to 1 / rank.
  std::int32_t operator()(std::uint32_t stream, std::uint64_t counter) const {
    for (std::uint32_t attempt = 0;; ++attempt) {
      const auto numbers = philox(seed_, RandomUse::synthetic_data, stream | attempt << 8, counter);
      const std::uint64_t first = std::uint64_t{1} << (numbers[0] % octaves_);
      const std::uint64_t rank = first + numbers[1] % first;
      const bool accepted = (static_cast<std::uint64_t>(numbers[2]) * rank) >> 32 < first;
      if (rank <= vocab_ && accepted) return static_cast<std::int32_t>(rank - 1);
    }
  }

 private:
  std::uint64_t seed_, vocab_;
  std::uint32_t octaves_;
};

class SyntheticText final : public TokenSource {
 public:
  SyntheticText(std::int64_t tokens, std::int64_t vocab, std::int64_t seed)
      : size_(tokens),
        vocab_(vocab),
        seed_(static_cast<std::uint64_t>(seed)),
        zipf_(static_cast<std::uint64_t>(seed), vocab) {
    TESSERA_ASSERT(tokens > 0 && vocab > 0, "{} synthetic tokens of {}", tokens, vocab);
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return vocab_; }
  std::string describe() const override { return "synthetic text"; }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    std::array<std::int32_t, kPiece> piece;
    while (count > 0) {
      const std::int64_t number = first / kPiece, inside = first % kPiece;
      const std::int64_t here = std::min(count, kPiece - inside);
      write_piece(number, inside + here, piece);
      std::copy_n(piece.begin() + inside, here, out);
      first += here, count -= here, out += here;
    }
  }

 private:
  /// Writes the first `length` tokens of a piece.
  void write_piece(std::int64_t number, std::int64_t length, std::array<std::int32_t, kPiece>& out) const {
    const auto piece = static_cast<std::uint64_t>(number);
    std::int32_t before = zipf_(kStarts, 2 * piece), last = zipf_(kStarts, 2 * piece + 1);
    std::array<std::uint32_t, 4> numbers{};
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint64_t at = piece * kPiece + static_cast<std::uint64_t>(i);
      if (i % 4 == 0) numbers = philox(seed_, RandomUse::synthetic_data, kChoices, at / 4);
      const std::uint32_t draw = numbers[static_cast<std::size_t>(i % 4)] & 15u;
      const std::int32_t next = draw == 15 ? zipf_(kWords, at) : successor(last, before, draw);
      before = last;
      last = next;
      out[static_cast<std::size_t>(i)] = next;
    }
  }

  /// Returns one of the four tokens that may follow `last`; the token before decides which one a draw of 0 to 14 means.
  std::int32_t successor(std::int32_t last, std::int32_t before, std::uint32_t draw) const {
    const std::uint32_t likelihood = draw < 8 ? 0 : draw < 12 ? 1 : draw < 14 ? 2 : 3;
    const std::uint32_t choice = likelihood ^ (static_cast<std::uint32_t>(before) & 3u);
    return zipf_(kSuccessors, static_cast<std::uint64_t>(last) * 4 + choice);
  }

  std::int64_t size_, vocab_;
  std::uint64_t seed_;
  Zipf zipf_;
};

}  // namespace

std::unique_ptr<TokenSource> synthetic_text(std::int64_t tokens, std::int64_t vocab, std::int64_t seed) {
  return std::make_unique<SyntheticText>(tokens, vocab, seed);
}

}  // namespace tessera
