// The figure that a run gives for the host's AdamW.
#include <catch2/catch.hpp>

#include "tessera/backend/thread_pool.hpp"
#include "tessera/engine/host_update.hpp"

using namespace tessera;

TEST_CASE("the host's AdamW has a rate") {
  ThreadPool pool(2);
  const double rate = host_update_rate(*make_cpu_kernels(pool));
  CHECK(rate > 1e6);
  CHECK(rate < 1e12);
}
