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

}  // namespace tessera
