#pragma once
// A small tokenizer whose ids depend on their neighbours: pairs of small letters are one token, paired from a word's
// start on. So a cut inside a word shows, and one at a space does not.

#include <algorithm>
#include <array>

#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::testing {

class PairTokenizer final : public Tokenizer {
 public:
  explicit PairTokenizer(std::int64_t vocab = kEnd + 1) : vocab_(vocab) {
    for (std::size_t i = 0; i < 256; ++i) bytes_[i] = {static_cast<char>(i)};
    for (std::size_t i = 0; i < kPairs; ++i)
      bytes_[256 + i] = {static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26)};
    bytes_[kEnd] = "<end>";
  }
  struct Pairs final : Encoder {
    void encode(std::string_view text, std::vector<std::int32_t>& ids, bool /*goes_on*/) override {
      const auto small = [&](std::size_t i) { return i < text.size() && text[i] >= 'a' && text[i] <= 'z'; };
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (small(i) && small(i + 1)) {
          ids.push_back(256 + 26 * (text[i] - 'a') + text[i + 1] - 'a');
          ++i;
        } else {
          ids.push_back(static_cast<unsigned char>(text[i]));
        }
      }
    }
  };
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<Pairs>(); }
  std::size_t cut_at_or_after(std::string_view text, std::size_t from) const override {
    return std::min(text.find(' ', from), text.size());
  }
  std::string_view bytes_of(std::int32_t id) const override { return bytes_.at(static_cast<std::size_t>(id)); }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const auto found = std::find(bytes_.begin(), bytes_.end(), token);
    if (found == bytes_.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - bytes_.begin());
  }
  std::optional<std::int32_t> end_of_text() const override { return kEnd; }
  std::int64_t vocab() const override { return vocab_; }
  std::uint64_t hash() const override { return 4711 + static_cast<std::uint64_t>(vocab_); }
  std::string describe() const override { return "pairs"; }

  static constexpr std::size_t kPairs = std::size_t{26} * 26;
  static constexpr std::int32_t kEnd = 256 + kPairs;

 private:
  std::int64_t vocab_;
  std::array<std::string, kEnd + 1> bytes_;
};

}  // namespace tessera::testing
