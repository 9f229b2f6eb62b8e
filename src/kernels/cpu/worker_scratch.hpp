#pragma once
// The fixed workspace of one thread: tiles of matmuls, rows, masks. Allocated once, when the kernels are made.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "tessera/kernels/scratch_layout.hpp"

namespace tessera {

class WorkerScratch {
 public:
  /// Two panels of a 16-bit matmul as fp32 (256 + 384 rows of 1024) and a tile of 256 x 384. As much again for rows and
  /// attention tiles.
  static constexpr std::int64_t kBytes = std::int64_t{6} << 20;

  WorkerScratch() : memory_(std::aligned_alloc(4096, static_cast<std::size_t>(kBytes))) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  /// Returns the full workspace, free again: each task starts with one.
  ScratchLayout scratch() { return ScratchLayout(memory_.get(), kBytes); }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
};

}  // namespace tessera
