#pragma once
// The widest row whose norm the GPU's kernels take.

#include <cstdint>

#include "tessera/base/refuse.hpp"

namespace tessera {

/// UsageError for rows that do not fit a block's registers.
inline void check_norm_width(std::int64_t width) {
  constexpr std::int64_t kWidest = 16384;
  if (width > kWidest)
    throw refusal("a norm of {} columns does not work", width)
        .because("the GPU's kernels hold a row")
        .use("up to {}", kWidest);
}

}  // namespace tessera
