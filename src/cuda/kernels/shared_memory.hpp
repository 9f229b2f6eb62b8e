#pragma once

#include <cstddef>

namespace tessera {

/// The shared memory that a block can have on every GPU from compute capability 8.0 on: 8.6, 8.9 and 12.0 have least.
inline constexpr std::size_t kSharedBytesEverywhere = 99 * 1024;

}  // namespace tessera
