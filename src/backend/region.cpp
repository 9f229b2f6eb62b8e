#include "tessera/backend/region.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "tessera/backend/pattern.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

Region::Region(std::int64_t bytes) {
  TESSERA_ASSERT(bytes >= 0, "a region of {} bytes", bytes);
  if (bytes == 0) return;
  mapping_ = map_memory(bytes);
  if (!mapping_) {
    throw IoError("cannot allocate a region of {} bytes ({}). It needs more memory, or a smaller plan.", bytes,
                  std::generic_category().message(errno));
  }
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  if (bytes >= kHugePage)  // only for speed: small pages work too
    madvise(mapping_.get().data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
}

void fill_pattern(std::span<std::byte> memory) {
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte{pattern_at(i)};
}

std::int64_t touched_bytes(std::span<const std::byte> memory, std::int64_t offset) {
  std::int64_t sum = 0;
  for (std::size_t begin = 0; begin < memory.size(); begin += static_cast<std::size_t>(kTouchPiece)) {
    const auto piece = memory.subspan(begin, std::min(memory.size() - begin, static_cast<std::size_t>(kTouchPiece)));
    const auto first = static_cast<std::uint64_t>(offset) + begin;
    std::size_t i = 0;
    while (i < piece.size() && piece[i] == std::byte{pattern_at(first + i)}) ++i;
    if (i < piece.size()) sum += static_cast<std::int64_t>(piece.size());
  }
  return sum;
}

}  // namespace tessera
