#include <array>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kBytes = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<Widen>(); }
  std::size_t cut_at_or_after(std::string_view /*text*/, std::size_t from) const override { return from; }
  std::string_view bytes_of(std::int32_t id) const override {
    if (id < 0 || id >= kBytes) throw UsageError("token {} of the bytes tokenizer (no such byte): 0 to 255", id);
    return {&kEvery[static_cast<std::size_t>(id)], 1};
  }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(token[0]);
  }
  std::optional<std::int32_t> end_of_text() const override { return std::nullopt; }
  std::int64_t vocab() const override { return kBytes; }
  std::uint64_t hash() const override { return kBytes; }
  std::string describe() const override { return "bytes"; }

 private:
  struct Widen final : Encoder {
    void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
      ids.reserve(ids.size() + text.size());
      for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    }
  };
  static constexpr std::array<char, kBytes> kEvery = [] {
    std::array<char, kBytes> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(static_cast<unsigned char>(i));
    return all;
  }();
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace tessera
