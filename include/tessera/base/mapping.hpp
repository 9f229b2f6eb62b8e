#pragma once
// Pages mapped into this process, unmapped with the object.

#include <cstddef>
#include <cstdint>

#include "tessera/base/unique_handle.hpp"

namespace tessera {

struct MappedPages {
  std::byte* data = nullptr;
  std::int64_t size = 0;
  bool operator==(const MappedPages&) const = default;
};

struct Unmap {
  static MappedPages none() { return {}; }
  void operator()(MappedPages pages) const;
};
using Mapping = UniqueHandle<MappedPages, Unmap>;

/// The first `bytes` (> 0) of a file, shared with all who map it. Empty where the system refuses, which errno explains.
Mapping map_file(int file, std::int64_t bytes, bool writable);
/// Zeroed memory of this process, whose pages are taken when they are touched. Empty as above.
Mapping map_memory(std::int64_t bytes);

}  // namespace tessera
