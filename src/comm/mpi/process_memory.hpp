#pragma once
// Memory between processes of a machine: an anonymous file that peers open through /proc.

#include "tessera/comm/shared_memory.hpp"

namespace tessera {

class ProcessMemory final : public MemoryExchange {
 public:
  Offer create(std::int64_t bytes) override;
  std::shared_ptr<SharedMemory> open(const std::string& token, std::int64_t bytes, bool writable) override;
};

}  // namespace tessera
