#include "tessera/backend/region.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

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

}  // namespace tessera
