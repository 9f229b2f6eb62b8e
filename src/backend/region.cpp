#include "tessera/backend/region.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/backend/pattern.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

Region::Region(std::int64_t bytes) : size_(bytes) {
  TESSERA_ASSERT(bytes >= 0, "a region of {} bytes", bytes);
  if (bytes == 0) return;
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw IoError("cannot allocate a region of {} bytes ({}): more memory or a smaller plan is needed", bytes,
                  std::generic_category().message(errno));
  }
  data_ = static_cast<std::byte*>(memory);
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (size >= kHugePage) madvise(memory, size, MADV_HUGEPAGE);  // only for speed: small pages work too
}

Region::~Region() {
  if (data_) munmap(data_, static_cast<std::size_t>(size_));
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void fill_pattern(std::span<std::byte> memory) {
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte{pattern_at(i)};
}

Extent touched_extent(std::span<const std::byte> memory) {
  std::size_t begin = 0, end = memory.size();
  while (begin < end && memory[begin] == std::byte{pattern_at(begin)}) ++begin;
  while (end > begin && memory[end - 1] == std::byte{pattern_at(end - 1)}) --end;
  if (begin == end) return {};
  return {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
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
