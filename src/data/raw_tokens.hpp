#pragma once
// Files of tokens without a header: nothing in them says how wide their numbers are, so the numbers are looked at.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "tessera/data/corpus.hpp"

namespace tessera {

/// Returns the bytes of a number, 2 or 4, in a file without a header, whose content is `bytes`. UsageError for other
/// formats. With TokenBytes::automatic it is 2, and a UsageError where something says that 16 bits are not right.
std::int64_t raw_token_bytes(const std::filesystem::path& file, std::span<const std::byte> bytes, const RawTokens& raw);

}  // namespace tessera
