#pragma once
// The bytes of a text as tokens in memory.

#include <algorithm>

#include "tessera/data/token_source.hpp"

namespace tessera::test {

inline std::unique_ptr<TokenSource> tokens_of_text(const std::string& text) {
  std::vector<std::int32_t> tokens(text.size());
  std::ranges::transform(text, tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
  return tokens_in_memory(std::move(tokens), 256);
}

}  // namespace tessera::test
