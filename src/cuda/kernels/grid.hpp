#pragma once
// Sizes of launches.

#include <vector_types.h>

#include <algorithm>
#include <cstdint>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

/// Returns as many blocks as pieces of `each` cover `n`; none for nothing.
inline dim3 blocks_for(std::int64_t n, std::int64_t each, std::int64_t y = 1, std::int64_t z = 1) {
  const std::int64_t x = ceil_div(n, each);
  TESSERA_ASSERT(x <= 0x7fffffff && y <= 65535 && z <= 65535, "a launch of {} x {} x {} blocks", x, y, z);
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

}  // namespace tessera
