#pragma once
// The widest row whose norm the GPU's kernels take.

#include <cstdint>

#include "tessera/base/error.hpp"

namespace tessera {

/// UsageError for rows that do not fit a block's registers.
inline void check_norm_width(std::int64_t width) {
  constexpr std::int64_t kWidest = 16384;
  if (width > kWidest)
    throw UsageError("a norm of {} columns (the GPU's kernels hold a row): up to {}", width, kWidest);
}

}  // namespace tessera
