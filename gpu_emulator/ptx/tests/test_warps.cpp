// Lanes that part and meet again, shuffles, matrices, calls.

#include <bit>
#include <catch2/catch.hpp>

#include "gpu_emulator/ptx/tests/played.hpp"
#include "tessera/base/dtype.hpp"

using namespace ptx::testing;

namespace {

const std::uint64_t kSeeds[] = {0, 1, 2, 3};

std::vector<std::uint32_t> zeros(std::size_t n) { return std::vector<std::uint32_t>(n); }

}  // namespace

TEST_CASE("lanes go round a loop as often as each wants, in any order, and over several blocks") {
  const std::string body = std::string(kOwnPlace) + R"(
    mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd3, %r4, 256; add.s64 %rd2, %rd2, %rd3;
    mov.u32 %r2, 0; mov.u32 %r3, %r1;
    LOOP: setp.eq.s32 %p1, %r3, 0; @%p1 bra DONE;
    add.s32 %r2, %r2, %r3; sub.s32 %r3, %r3, 1; bra.uni LOOP;
    DONE: add.s32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2;)";
  for (const std::uint64_t seed : kSeeds) {
    const auto sums = played<std::uint32_t>(body, zeros(128), {64, seed, 0, 2});
    for (std::uint32_t i = 0; i < 128; ++i) CHECK(sums[i] == (i % 64) * (i % 64 + 1) / 2 + i / 64);
  }
}

TEST_CASE("shuffles and votes wait for the lanes of their mask, wherever those are") {
  const std::string body = std::string(kOwnPlace) + R"(
    and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 1; @%p1 bra ODD;
    mul.lo.s32 %r3, %r1, 10; bra.uni BOTH;
    ODD: mul.lo.s32 %r3, %r1, 100;
    BOTH: shfl.sync.bfly.b32 %r4|%p2, %r3, 1, 31, -1;
    setp.gt.u32 %p3, %r1, 29; vote.sync.ballot.b32 %r5, %p3, -1; shr.u32 %r5, %r5, 30;
    add.s32 %r4, %r4, %r5; st.global.u32 [%rd2], %r4;)";
  for (const std::uint64_t seed : kSeeds) {
    const auto values = played<std::uint32_t>(body, zeros(32), {32, seed});
    for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == (i % 2 == 0 ? (i + 1) * 100 : (i - 1) * 10) + 3);
  }
  CHECK_THAT(fault_of("mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 5; @%p1 ret; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;"),
             Catch::Contains("waits for lanes that have left"));
  CHECK_THAT(fault_of("mov.u32 %r1, %tid.x; shfl.sync.idx.b32 %r2, %r1, 0, 31, 15;"),
             Catch::Contains("lacks the lane"));
  CHECK_THAT(fault_of("mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 15; @%p1 bra B;"
                      "bar.warp.sync -1; bra.uni E; B: bar.warp.sync -1; E: mov.u32 %r2, 0;"),
             Catch::Contains("wait in vain"));
}

TEST_CASE("a matmul from shared memory") {
  // A [16, 16] and B [16, 8] as bf16 in dynamic shared memory; D in fp32 to global memory, by fragments.
  const std::string body = std::string(kOwnPlace) + R"(
    mov.u32 %r20, tile;
    FILL: shl.b32 %r21, %r1, 1; add.s32 %r21, %r20, %r21;
    mul.wide.u32 %rd3, %r1, 2; add.s64 %rd3, %rd1, %rd3; ld.global.u16 %rs1, [%rd3]; st.shared.u16 [%r21], %rs1;
    add.s32 %r1, %r1, 32; setp.lt.u32 %p1, %r1, 384; @%p1 bra FILL;
    bar.warp.sync -1;
    mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 7; shr.u32 %r3, %r1, 3; and.b32 %r4, %r3, 1; shr.u32 %r5, %r3, 1;
    mad.lo.s32 %r6, %r4, 8, %r2; shl.b32 %r6, %r6, 5; mad.lo.s32 %r6, %r5, 16, %r6; add.s32 %r6, %r20, %r6;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r6];
    mad.lo.s32 %r7, %r4, 8, %r2; shl.b32 %r7, %r7, 4; add.s32 %r7, %r20, %r7;
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r14, %r15, %r16, %r17}, [%r7+512];
    mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, {%r14, %r15},
      {%f1, %f2, %f3, %f4};
    shr.u32 %r8, %r1, 2; and.b32 %r9, %r1, 3; mad.lo.s32 %r8, %r8, 4, %r9; mul.wide.u32 %rd4, %r8, 8;
    add.s64 %rd4, %rd1, %rd4; st.global.v2.f32 [%rd4+1024], {%f1, %f2}; st.global.v2.f32 [%rd4+1280], {%f3, %f4};)";
  std::vector<std::uint32_t> memory(512);
  auto* const elements = reinterpret_cast<tessera::bf16*>(memory.data());
  for (int i = 0; i < 384; ++i) elements[i] = tessera::bf16(static_cast<float>((i * 37) % 17 - 8));
  const auto a = [&](int row, int k) { return static_cast<float>(elements[16 * row + k]); };
  const auto b = [&](int k, int column) { return static_cast<float>(elements[256 + 8 * k + column]); };
  for (const std::uint64_t seed : kSeeds) {
    const auto out = played(body, memory, {32, seed, 1024}, ".extern .shared .align 16 .b8 tile[];");
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float sum = 1;
        for (int k = 0; k < 16; ++k) sum += a(row, k) * b(k, column);
        CHECK(std::bit_cast<float>(out[static_cast<std::size_t>(256 + 8 * row + column)]) == sum);
      }
    }
  }
}

TEST_CASE("a function is called, by lanes that are apart too") {
  const std::string function = R"(
    .func (.param .b64 result) square(.param .b64 x) { ld.param.f64 %fd1, [x]; setp.lt.f64 %p1, %fd1, 0d0000000000000000;
    @%p1 bra NEGATIVE; mul.rn.f64 %fd2, %fd1, %fd1; st.param.f64 [result], %fd2; ret;
    NEGATIVE: neg.f64 %fd2, %fd1; st.param.f64 [result], %fd2; ret; })";
  const std::string body = std::string(kOwnPlace) + R"(
    cvt.rn.f64.s32 %fd1, %r1; sub.f64 %fd5, %fd1, 0d4030000000000000; { .param .b64 given; st.param.f64 [given+0], %fd5;
    .param .b64 back; call.uni (back), square, (given); ld.param.f64 %fd6, [back+0]; }
    add.f64 %fd6, %fd6, %fd1; cvt.rn.f32.f64 %f1, %fd6; st.global.f32 [%rd2], %f1;)";
  for (const std::uint64_t seed : kSeeds) {
    const auto out = played<std::uint32_t>(body, zeros(32), {32, seed}, function);
    for (std::size_t i = 0; i < 32; ++i) {
      const auto x = static_cast<float>(i) - 16;
      CHECK(std::bit_cast<float>(out[i]) == (x < 0 ? -x : x * x) + static_cast<float>(i));
    }
  }
}
