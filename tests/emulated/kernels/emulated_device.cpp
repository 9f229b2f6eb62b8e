#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "gpu_emulator/runtime/enqueue.hpp"
#include "kernels/cuda/test_device.hpp"

namespace tessera::testing {

/// Small, because the emulator opens and closes all device memory around every piece of work.
std::int64_t library_workspace_bytes() { return 1 << 16; }

void prepare_test_device(int threads) {
  emulator::set_chaos(0);  // delays would show nothing on one stream whose work is waited for
  emulator::set_order_seed(static_cast<std::uint64_t>(threads - 1));
  if (const char* const text = std::getenv("TESSERA_TEST_CAPABILITY")) {  // NOLINT(concurrency-mt-unsafe)
    int major = 0, minor = 0;
    REQUIRE(std::sscanf(text, "%d.%d", &major, &minor) == 2);
    emulator::set_capability(major, minor);
  }
}

}  // namespace tessera::testing
