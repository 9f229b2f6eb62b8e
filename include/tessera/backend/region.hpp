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

/// Fills memory with a pattern that depends on the place (offset from `memory`'s start) and reads as NaN in every
/// floating type: what is read before it is written shows, and so does every write.
void fill_pattern(std::span<std::byte> memory);

/// The range from the first to the last byte that no longer holds the pattern ({0, 0} when all do).
Extent touched_extent(std::span<const std::byte> memory);

/// Memory is looked at in pieces of so many bytes: one in which any byte has changed counts whole.
inline constexpr std::int64_t kTouchPiece = 256;

/// Bytes of the pieces of `memory` that no longer hold the pattern. `memory` lies `offset` bytes behind the start of
/// what was filled, a multiple of kTouchPiece; on a GPU it is aligned to 16 bytes.
std::int64_t touched_bytes(std::span<const std::byte> memory, std::int64_t offset);

}  // namespace tessera
