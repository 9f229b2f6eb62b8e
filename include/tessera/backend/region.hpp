#pragma once
// One memory region of a rank, allocated once from the memory plan. (Regions that peers read come from comm.)

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/mapping.hpp"

namespace tessera {

/// Private zeroed memory of the process, 4096-aligned, pages taken at first touch. Move-only.
class Region {
 public:
  Region() = default;
  /// IoError when the system refuses `bytes` (>= 0; an empty region has no memory).
  explicit Region(std::int64_t bytes);

  std::byte* data() const { return mapping_.get().data; }
  std::int64_t size() const { return mapping_.get().size; }
  std::span<std::byte> bytes() const { return {data(), static_cast<std::size_t>(size())}; }

 private:
  Mapping mapping_;
};

/// A range of bytes [begin, end).
struct Extent {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Extent&) const = default;
};

/// Fills memory with a pattern that depends on the offset from `memory`'s start and reads as NaN in every floating
/// type. This exposes reads before a write, and every write.
void fill_pattern(std::span<std::byte> memory);

/// Memory is examined in pieces of this many bytes. A piece counts as touched if any of its bytes has changed.
inline constexpr std::int64_t kTouchPiece = 256;

/// Returns the bytes of the pieces of `memory` that no longer hold the pattern. `memory` lies `offset` bytes behind the
/// start of the filled range, a multiple of kTouchPiece. On a GPU it is aligned to 16 bytes.
std::int64_t touched_bytes(std::span<const std::byte> memory, std::int64_t offset);

}  // namespace tessera
