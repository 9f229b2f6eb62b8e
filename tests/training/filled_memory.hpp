#pragma once
// Memory that is filled first, to find what is never written.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/schedule/memory_plan.hpp"

namespace tessera::testing {

/// The byte at an address. No number repeats over a whole piece.
inline std::byte filling(const std::byte& place) {
  return static_cast<std::byte>((reinterpret_cast<std::uintptr_t>(&place) * 0x9e3779b97f4a7c15u) >> 56);
}

inline void fill(std::span<std::byte> memory) {
  for (std::byte& byte : memory) byte = filling(byte);
}

/// Returns the bytes of the pieces, of the size in which memory is planned, that hold what fill() wrote.
inline std::size_t unwritten(std::span<const std::byte> memory) {
  constexpr std::size_t kPiece = kStorageAlignment;
  std::size_t bytes = 0;
  for (std::size_t begin = 0; begin < memory.size(); begin += kPiece) {
    const std::size_t end = std::min(memory.size(), begin + kPiece);
    std::size_t i = begin;
    while (i < end && memory[i] == filling(memory[i])) ++i;
    if (i == end) bytes += end - begin;
  }
  return bytes;
}

}  // namespace tessera::testing
