#include <array>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/base/refuse.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/byte_alphabet.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kBytes = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<Widen>(); }
  std::size_t cut_at_or_after(std::string_view /*text*/, std::size_t from) const override { return from; }
  std::string_view bytes_of(std::int32_t id) const override {
    if (id < 0 || id >= kBytes) throw refusal("token {} of the bytes tokenizer is not a byte", id).use("0 to 255");
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
    void encode(std::string_view text, std::vector<std::int32_t>& ids, bool /*goes_on*/) override {
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

std::string byte_tokenizer_json() {
  // Without merges it does not matter how the text is cut into words.
  auto json = nlohmann::ordered_json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "vocab": {}, "merges": []}})");
  for (int byte = 0; byte < kBytes; ++byte)
    json["model"]["vocab"][std::string(spelling_of(static_cast<unsigned char>(byte)))] = byte;
  return json.dump(2) + "\n";
}

bool is_byte_tokenizer(const std::filesystem::path& path) {
  std::error_code unseen;
  const auto file = std::filesystem::is_directory(path, unseen) ? tokenizer_in(path) / "tokenizer.json" : path;
  const std::string json = byte_tokenizer_json();
  if (std::filesystem::file_size(file, unseen) != json.size() || unseen) return false;
  return read_text_file(file, static_cast<std::int64_t>(json.size())) == json;
}

}  // namespace tessera
