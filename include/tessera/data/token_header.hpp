#pragma once
// llm.c's token file: 256 int32 of header, of which the first three are used (magic, version, number of tokens), then
// the ids.

#include <array>
#include <cstdint>

namespace tessera {

inline constexpr std::int64_t kLlmcTokenHeader = std::int64_t{256} * 4;  // bytes

struct LlmcTokenKind {
  std::int32_t magic, version;
  std::int64_t token_bytes;
};
inline constexpr std::array<LlmcTokenKind, 2> kLlmcTokenKinds{{{20240520, 1, 2}, {20240801, 7, 4}}};

}  // namespace tessera
