#pragma once
// The byte pattern of memory that has not been written (fill_pattern), for hosts and devices.

#include <cstdint>

#include "tessera/base/host_device.hpp"

namespace tessera {

/// Returns the byte at an offset. Odd bytes are 0xff and even ones 0xf1..0xfe: a NaN as fp16, bf16, fp32 and fp64.
TESSERA_HOST_DEVICE constexpr std::uint8_t pattern_at(std::uint64_t offset) {
  if (offset % 2 == 1) return 0xff;
  const std::uint64_t mixed = (offset / 2 + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint8_t>(0xf1u + (mixed >> 32) % 14u);
}

}  // namespace tessera
