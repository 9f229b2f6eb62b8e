#pragma once
// Headers of token files, 1024 bytes long, little-endian. llm.c's: 256 int32, of which the first three are used (magic,
// version, number of tokens). Tessera's own counts in 64 bits: kWideMagic, uint32 version, uint32 bytes per token,
// uint64 number of tokens, zeros. The ids follow.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

inline constexpr std::int64_t kTokenHeader = std::int64_t{256} * 4;  // bytes

struct LlmcTokenKind {
  std::int32_t magic, version;
  std::int64_t token_bytes;
};
inline constexpr std::array<LlmcTokenKind, 2> kLlmcTokenKinds{{{20240520, 1, 2}, {20240801, 7, 4}}};

inline constexpr std::string_view kWideMagic = "TESSERAT";
inline constexpr std::uint32_t kWideVersion = 1;
/// The fields after the magic.
struct WideTokenHeader {
  std::uint32_t version = kWideVersion, token_bytes = 2;
  std::uint64_t tokens = 0;
};
static_assert(sizeof(WideTokenHeader) == 16);

enum class TokenHeader : std::uint8_t { llmc, wide };

/// Returns the header of a file of so many tokens, of 2 or 4 bytes each. llm.c's counts at most 2^31 - 1.
std::array<std::byte, kTokenHeader> token_header(TokenHeader kind, std::int64_t tokens, std::int64_t token_bytes);

/// Returns the bytes that a token of a vocabulary of `ids` ids needs: 2 or 4.
constexpr std::int64_t bytes_of_token(std::int64_t ids) { return ids <= 65536 ? 2 : 4; }

}  // namespace tessera
