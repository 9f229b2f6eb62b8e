// The figure that a run gives for the host's AdamW.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "tessera/backend/thread_pool.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/engine/host_update.hpp"

using namespace tessera;

namespace {

/// The most memory that this process ever had.
std::int64_t peak_bytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss * 1024;
}

}  // namespace

TEST_CASE("the host's AdamW has a rate") {
  ThreadPool pool(2);
  for (const DType type : {DType::fp32, DType::bf16}) {
    const double rate = host_update_rate(*make_cpu_kernels(pool), 100'000, type, type, 1 << 20);
    CHECK(rate > 1e6);
    CHECK(rate < 1e12);
  }
}

TEST_CASE("the rate of the host's AdamW is measured over as much memory as is allowed, in about two seconds") {
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  const auto seconds = [&](std::int64_t bytes) {
    const auto start = std::chrono::steady_clock::now();
    CHECK(host_update_rate(*kernels, std::int64_t{8} << 30, DType::bf16, DType::fp32, bytes) > 0);
    return seconds_since(start);
  };
  seconds(1);  // one bucket
  const std::int64_t before = peak_bytes();
  const double large = seconds(std::int64_t{1} << 30);
  const std::int64_t taken = peak_bytes() - before;
  CHECK(large < 10);  // on a machine with other work
  CHECK(taken > std::int64_t{1} << 26);
  CHECK(taken < (std::int64_t{1} << 30) + (std::int64_t{1} << 27));
}
