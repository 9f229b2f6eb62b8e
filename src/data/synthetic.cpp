#include <algorithm>
#include <array>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/error.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kPiece = 256;  ///< a new start after so many tokens makes any position cheap to reach
constexpr std::int64_t kAlphabet = 64;

// Streams of the seed's random numbers.
constexpr std::uint32_t kSuccessors = 1, kStarts = 2, kChoices = 3;

class SyntheticText final : public TokenSource {
 public:
  SyntheticText(std::int64_t tokens, std::int64_t vocab, std::int64_t seed)
      : size_(tokens), alphabet_(std::min(vocab, kAlphabet)), seed_(static_cast<std::uint64_t>(seed)) {
    TESSERA_ASSERT(tokens > 0 && vocab > 0, "{} synthetic tokens of {}", tokens, vocab);
    for (std::uint32_t token = 0; token < kAlphabet; ++token) {
      const auto numbers = philox(seed_, RandomUse::synthetic_data, kSuccessors, token);
      std::ranges::transform(numbers, successors_[token].begin(), [&](std::uint32_t n) { return letter(n); });
    }
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return alphabet_; }
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
  std::int32_t letter(std::uint32_t number) const {
    return static_cast<std::int32_t>(number % static_cast<std::uint32_t>(alphabet_));
  }

  /// The first `length` tokens of a piece.
  void write_piece(std::int64_t number, std::int64_t length, std::array<std::int32_t, kPiece>& out) const {
    const auto starts = philox(seed_, RandomUse::synthetic_data, kStarts, static_cast<std::uint64_t>(number));
    std::int32_t before = letter(starts[0]), last = letter(starts[1]);
    std::array<std::uint32_t, 4> numbers{};
    for (std::int64_t i = 0; i < length; ++i) {
      if (i % 4 == 0) {
        const auto counter = static_cast<std::uint64_t>(number * (kPiece / 4) + i / 4);
        numbers = philox(seed_, RandomUse::synthetic_data, kChoices, counter);
      }
      const std::uint32_t draw = numbers[static_cast<std::size_t>(i % 4)] & 7u;
      const std::uint32_t rank = draw < 4 ? 0 : draw < 6 ? 1 : draw - 4;  // 1/2, 1/4, 1/8, 1/8
      const std::uint32_t choice = rank ^ (static_cast<std::uint32_t>(before) & 3u);
      before = last;
      last = successors_[static_cast<std::size_t>(last)][choice];
      out[static_cast<std::size_t>(i)] = last;
    }
  }

  std::int64_t size_, alphabet_;
  std::uint64_t seed_;
  std::array<std::array<std::int32_t, 4>, kAlphabet> successors_{};
};

}  // namespace

std::unique_ptr<TokenSource> synthetic_text(std::int64_t tokens, std::int64_t vocab, std::int64_t seed) {
  return std::make_unique<SyntheticText>(tokens, vocab, seed);
}

}  // namespace tessera
