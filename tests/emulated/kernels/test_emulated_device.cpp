// The emulated device itself: what it runs, and the faults that it must find.

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "cuda/kernels/intrinsics.cuh"
#include "tessera/base/error.hpp"

using namespace tessera;

namespace {

template <class Kernel>
std::string fault_of(unsigned threads, Kernel kernel, std::size_t shared = 0) {
  try {
    emulator::run_grid(dim3(1), dim3(threads), shared, kernel);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("threads of a block share memory between barriers; warps exchange values", "[emulator]") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    emulator::set_order_seed(seed);
    std::vector<float> out(4 * 96);
    emulator::run_grid(dim3(2, 2), dim3(96), 0, [&] {
      TESSERA_SHARED(float, values, 96);
      values[threadIdx.x] = static_cast<float>(threadIdx.x);
      __syncthreads();
      const float sum = warp_sum(values[95 - threadIdx.x]);
      out[(blockIdx.y * 2 + blockIdx.x) * 96 + threadIdx.x] = sum;
    });
    for (unsigned i = 0; i < out.size(); ++i) {
      const unsigned warp = i % 96 / 32;  // 95 - i: warps in descending order
      CHECK(out[i] == static_cast<float>((2 - warp) * 32 * 32 + 496));
    }
  }
  emulator::set_order_seed(0);
}

TEST_CASE("a tensor core's product is the product, piece by piece", "[emulator]") {
  std::vector<float> out(16 * 8);
  emulator::run_grid(dim3(1), dim3(32), 0, [&] {
    // A[i, k] = i + k / 16, B = rows of an 8 x 16 matrix transposed: B[k, j] = (k == j ? 1 : 0).
    const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;
    const auto a = [](unsigned i, unsigned k) { return static_cast<float>(i) + static_cast<float>(k) / 16; };
    const auto b = [](unsigned k, unsigned j) { return k == j ? 1.0f : 0.0f; };
    const std::uint32_t pieces[4] = {
        packed<bf16>(a(g, 2 * t), a(g, 2 * t + 1)), packed<bf16>(a(g + 8, 2 * t), a(g + 8, 2 * t + 1)),
        packed<bf16>(a(g, 2 * t + 8), a(g, 2 * t + 9)), packed<bf16>(a(g + 8, 2 * t + 8), a(g + 8, 2 * t + 9))};
    float d[4] = {};
    mma_16816<bf16>(d, pieces, packed<bf16>(b(2 * t, g), b(2 * t + 1, g)),
                    packed<bf16>(b(2 * t + 8, g), b(2 * t + 9, g)));
    for (unsigned i = 0; i < 4; ++i) out[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = d[i];
  });
  for (unsigned i = 0; i < 16; ++i) {
    for (unsigned j = 0; j < 8; ++j) CHECK(out[i * 8 + j] == static_cast<float>(i) + static_cast<float>(j) / 16);
  }
}

TEST_CASE("faults of a kernel are found", "[emulator]") {
  using Catch::Contains;
  CHECK_THAT(fault_of(64,
                      [] {
                        if (threadIdx.x < 32) __syncthreads();
                      }),
             Contains("in vain") || Contains("left the kernel"));
  const std::string two_places = fault_of(64, [] {  // (inside a macro's argument all places are one)
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  CHECK_THAT(two_places, Contains("different places"));
  CHECK_THAT(fault_of(32,
                      [] {
                        if (threadIdx.x != 3) __syncwarp();
                      }),
             Contains("in vain"));
  const std::string two_operations = fault_of(32, [] {
    if (threadIdx.x < 16) {
      warp_sum(1.0f);
    } else {
      __syncwarp();
    }
  });
  CHECK_THAT(two_operations, Contains("different operations"));
#if !defined(__SANITIZE_ADDRESS__)  // (which ends the process at once)
  CHECK_THAT(fault_of(32,
                      [] {
                        TESSERA_SHARED(float, values, 32);
                        float* beside = values;
                        beside[threadIdx.x + 1] = 1;
                      }),
             Contains("beside its shared memory"));
#endif
  CHECK_THAT(fault_of(32, [] { load16(reinterpret_cast<const void*>(std::uintptr_t{8})); }), Contains("misaligned"));
  alignas(16) static const float source[4] = {1, 2, 3, 4};
  CHECK_THAT(fault_of(32,
                      [] {
                        TESSERA_SHARED(float, values, 4);
                        if (threadIdx.x == 0) cp_async16(values, source, true);
                      }),
             Contains("nobody waited"));
  CHECK_THAT(fault_of(
                 32, [] {}, (163 << 10) + 1),
             Contains("than a GPU has"));
  CHECK_THAT(fault_of(
                 32,
                 [] {
                   TESSERA_SHARED(float, values, 4);
                   static_cast<void>(values);
                 },
                 163 << 10),
             Contains("static and dynamic"));
}

TEST_CASE("shared memory starts as NaN, and a copy is not there before it was waited for", "[emulator]") {
  alignas(16) static const float source[4] = {1, 2, 3, 4};
  float fresh = 0, early = 0, late = 0;
  emulator::run_grid(dim3(1), dim3(1), 64, [&] {
    TESSERA_SHARED(float, values, 4);
    fresh = values[2] + static_cast<float*>(emulator::dynamic_shared_memory())[15];
    cp_async16(values, source, true);
    cp_async_commit();
    early = values[2];
    cp_async_wait<0>();
    late = values[2];
  });
  CHECK(std::isnan(fresh));
  CHECK(std::isnan(early));
  CHECK(late == 3);
}
