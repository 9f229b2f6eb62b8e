#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "data/raw_tokens.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/token_header.hpp"
#include "tessera/files/mapped_file.hpp"

namespace tessera {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read in place");

/// The place and width of a file's tokens.
struct TokenLayout {
  std::int64_t first_byte = 0, token_bytes = 2, tokens = 0;
};

const LlmcTokenKind* header_kind(std::span<const std::byte> bytes) {
  std::int32_t magic = 0;
  if (bytes.size() < sizeof magic) return nullptr;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  for (const auto& kind : kLlmcTokenKinds) {
    if (kind.magic == magic) return &kind;
  }
  return nullptr;
}

TokenLayout read_header(const std::string& name, std::span<const std::byte> bytes, const LlmcTokenKind& kind) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size < kTokenHeader) {
    throw refusal("{} is truncated", name)
        .because("it has {} bytes, but llm.c's header alone has {}", size, kTokenHeader)
        .hint("Copy the file again");
  }
  std::array<std::int32_t, 3> header{};
  std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[1] != kind.version) {
    throw refusal("{} has version {} of llm.c's token file {}, whose layout is unknown", name, header[1], kind.magic)
        .use("version {}", kind.version);
  }
  const std::int64_t tokens = header[2];
  if (tokens <= 0) {
    throw refusal("{} has nothing to train on", name)
        .because("its header says {} tokens", tokens)
        .use("a file of 1 or more");
  }
  const std::int64_t expected = kTokenHeader + tokens * kind.token_bytes;
  if (size != expected) {
    throw refusal("{} is {}", name, size < expected ? "truncated" : "longer than its header says")
        .because("it has {} bytes instead of {}, and its header says {} tokens of {} bytes", size, expected, tokens,
                 kind.token_bytes);
  }
  return {kTokenHeader, kind.token_bytes, tokens};
}

bool is_wide(std::span<const std::byte> bytes) {
  return bytes.size() >= kWideMagic.size() && std::memcmp(bytes.data(), kWideMagic.data(), kWideMagic.size()) == 0;
}

TokenLayout read_wide_header(const std::string& name, std::span<const std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size < kTokenHeader) {
    throw refusal("{} is truncated", name)
        .because("it has {} bytes, but the header alone has {}", size, kTokenHeader)
        .hint("Prepare it again");
  }
  WideTokenHeader header;
  std::memcpy(&header, bytes.data() + kWideMagic.size(), sizeof header);
  if (header.version != kWideVersion || (header.token_bytes != 2 && header.token_bytes != 4)) {
    throw refusal("{} has version {} of Tessera's token file and {} bytes per token, a layout that is unknown", name,
                  header.version, header.token_bytes)
        .use("version {}", kWideVersion);
  }
  const std::int64_t token_bytes = header.token_bytes, held = (size - kTokenHeader) / token_bytes;
  if (held == 0 || header.tokens != static_cast<std::uint64_t>(held) || held * token_bytes != size - kTokenHeader) {
    throw refusal("{} is truncated, or not finished", name)
        .because("it has {} bytes, but its header says {} tokens of {} bytes", size, header.tokens, token_bytes)
        .hint("Prepare it again");
  }
  return {kTokenHeader, token_bytes, held};
}

TokenLayout layout_of(const std::filesystem::path& file, std::span<const std::byte> bytes, const RawTokens& raw) {
  const std::string name = file.string();
  if (bytes.empty()) throw refusal("{} is empty", name).use("a .bin file of uint16 tokens or of llm.c's format");
  if (is_wide(bytes)) return read_wide_header(name, bytes);
  if (const auto* kind = header_kind(bytes)) return read_header(name, bytes, *kind);
  const auto size = static_cast<std::int64_t>(bytes.size());
  const std::int64_t width = raw_token_bytes(file, bytes, raw), rest = size % width;
  if (rest != 0) {
    throw refusal("{} is truncated", name)
        .because("it has {} bytes instead of {} or {} bytes, and uint{} tokens have {} each", size, size - rest,
                 size - rest + width, 8 * width, width);
  }
  return {0, width, size / width};
}

class TokenFile final : public TokenSource {
 public:
  TokenFile(const std::filesystem::path& file, const RawTokens& raw)
      : name_(file.string()), file_(file), layout_(layout_of(file, file_.bytes(), raw)) {}

  std::int64_t size() const override { return layout_.tokens; }
  std::int64_t id_bound() const override { return std::int64_t{1} << (8 * layout_.token_bytes); }
  std::string describe() const override { return name_; }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size() - count, "tokens {}+{} of {}", first, count, size());
    const std::byte* from = file_.bytes().data() + layout_.first_byte + first * layout_.token_bytes;
    if (layout_.token_bytes == 2) {
      widen<std::uint16_t>(from, count, out);
    } else {
      widen<std::uint32_t>(from, count, out);
      for (std::int64_t i = 0; i < count; ++i) {
        if (out[i] < 0) {
          throw refusal("{}: token {} at position {} is too large for any vocabulary", name_,
                        static_cast<std::uint32_t>(out[i]), first + i)
              .use("ids below {}", std::numeric_limits<std::int32_t>::max());
        }
      }
    }
  }

 private:
  template <class T>
  static void widen(const std::byte* from, std::int64_t count, std::int32_t* out) {
    for (std::int64_t i = 0; i < count; ++i) {
      T token;
      std::memcpy(&token, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      out[i] = static_cast<std::int32_t>(token);
    }
  }

  std::string name_;
  MappedFile file_;
  TokenLayout layout_;
};

}  // namespace

std::unique_ptr<TokenSource> open_token_file(const std::filesystem::path& file, const RawTokens& raw) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw refusal("{} is not a file", file.string()).use("a .bin file of tokens");
  }
  return std::make_unique<TokenFile>(file, raw);
}

bool has_token_header(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return is_wide(mapped.bytes()) || header_kind(mapped.bytes()) != nullptr;
}

}  // namespace tessera
