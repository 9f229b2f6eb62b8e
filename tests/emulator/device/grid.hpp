#pragma once
// An emulated GPU's thread blocks: every thread is a fiber, blocks run one after the other on the calling thread. A
// fiber runs until it meets others (barrier, warp operation). What is caught: threads that wait for each other in vain
// or at different places, lanes missing in a warp operation, shared memory read before it was written (it starts as
// NaN), writes beside shared arrays; and with an order seed, results that depend on which thread or block comes first.

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "emulator/device/order.hpp"

namespace emulator {

/// A place in a source. (std::source_location, which not every compiler that reads these files has.)
struct SourcePlace {
  const char* file = "";
  unsigned line = 0;
  const char* function = "";

  static constexpr SourcePlace current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                       const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
};

/// Runs `thread` for every thread of every block and returns when all are done. std::runtime_error for an impossible
/// launch or a fault in the kernel.
void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& thread);

/// The running block's dynamic shared memory, aligned to 128 bytes, as many bytes as were asked for.
void* dynamic_shared_memory();

/// The running thread's place.
struct ThreadPlace {
  dim3 grid, block;
  uint3 block_index, thread_index;
  unsigned lane = 0;
};
const ThreadPlace& place();

/// `bytes` of the block's shared memory for the array that is declared at `site` (the address of anything unique).
void* shared_array(const void* site, std::size_t bytes, std::size_t alignment);

/// Waits until every thread of the block is here.
void block_barrier(const SourcePlace& at);

/// What the lanes of a warp bring to an operation and take from it; null for lanes outside the mask.
struct Meeting {
  const void* in[32] = {};
  void* out[32] = {};
};

/// Waits until every lane in `mask` is at this same operation; the last one calls combine.
void meet(std::uint32_t mask, const void* in, void* out, const std::function<void(const Meeting&)>& combine,
          const SourcePlace& at);

/// A fault of the running kernel: ends the launch with std::runtime_error.
[[noreturn]] void fault(const char* what, const SourcePlace& at);

}  // namespace emulator

#include "emulator/device/builtins.hpp"
