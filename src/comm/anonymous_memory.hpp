#pragma once
// Memory of one process behind the SharedMemory interface: shared by threads, or by none.

#include "tessera/backend/region.hpp"
#include "tessera/comm/shared_memory.hpp"

namespace tessera {

class AnonymousMemory final : public SharedMemory {
 public:
  explicit AnonymousMemory(std::int64_t bytes) : region_(bytes) {}
  std::byte* data() const override { return region_.data(); }
  std::int64_t size() const override { return region_.size(); }

 private:
  Region region_;
};

}  // namespace tessera
