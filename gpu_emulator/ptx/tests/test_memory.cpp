// Errors with memory and barriers are found, and correct programs pass; traffic is in the hardware's units.

#include <catch2/catch.hpp>

#include "gpu_emulator/ptx/tests/played.hpp"

using namespace ptx::testing;

namespace {

const char* const kTile = ".extern .shared .align 16 .b8 tile[];";
/// %r20 = the thread's own word of the tile, %r21 = its neighbour's, %r22 = that of the thread 32 further.
const char* const kPlaces = R"(mov.u32 %r1, %tid.x; mov.u32 %r19, tile; shl.b32 %r2, %r1, 2; add.s32 %r20, %r19, %r2;
  xor.b32 %r3, %r2, 4; add.s32 %r21, %r19, %r3; xor.b32 %r4, %r2, 128; add.s32 %r22, %r19, %r4;)";

std::string fault(const std::string& body, std::int64_t threads = 64) {
  return fault_of(kPlaces + body, {threads, 0, 1024}, kTile);
}

}  // namespace

TEST_CASE("shared memory: a barrier between those who write and those who read") {
  CHECK(fault("st.shared.u32 [%r20], %r1; ld.shared.u32 %r9, [%r20];").empty());
  CHECK_THAT(fault("st.shared.u32 [%r20], %r1; ld.shared.u32 %r9, [%r21];"), Catch::Contains("without a barrier"));
  CHECK(fault("st.shared.u32 [%r20], %r1; bar.sync 0; ld.shared.u32 %r9, [%r22];").empty());
  CHECK(fault("st.shared.u32 [%r20], %r1; bar.warp.sync -1; ld.shared.u32 %r9, [%r21];").empty());
  CHECK_THAT(fault("st.shared.u32 [%r20], %r1; bar.warp.sync -1; ld.shared.u32 %r9, [%r22];"),
             Catch::Contains("without a barrier") || Catch::Contains("nobody has written"));
  CHECK_THAT(fault("st.shared.u32 [%r20], %r1; bar.sync 0; setp.gt.u32 %p1, %r1, 31; @!%p1 ld.shared.u32 %r9, [%r22];"
                   "@%p1 st.shared.u32 [%r20], %r9;"),
             Catch::Contains("may still read"));
  CHECK(fault("st.shared.u32 [%r20], %r1; bar.sync 0; ld.shared.u32 %r9, [%r22]; bar.sync 0;"
              "st.shared.u32 [%r20], %r9;")
            .empty());
  const std::string neighbours = "st.shared.u32 [%r20], %r1; bar.warp.sync -1; ld.shared.u32 %r9, [%r21];";
  CHECK_THAT(fault(neighbours + "st.shared.u32 [%r20], %r9;"), Catch::Contains("may still read"));
  CHECK(fault(neighbours + "bar.warp.sync -1; st.shared.u32 [%r20], %r9;").empty());
  CHECK_THAT(fault("st.shared.u32 [%r19], %r1;"), Catch::Contains("has written, without a barrier"));
  CHECK_THAT(fault("ld.shared.u32 %r9, [%r20];"), Catch::Contains("nobody has written"));
  CHECK_THAT(fault("st.shared.u32 [%r20+1000], %r1;"), Catch::Contains("beyond shared memory"));
  CHECK_THAT(fault("st.shared.u32 [%r20+2], %r1;"), Catch::Contains("misaligned"));
}

TEST_CASE("asynchronous copies: read after a wait, by others after a barrier too") {
  const std::string copy = R"(mul.wide.u32 %rd2, %r1, 16; add.s64 %rd2, %rd1, %rd2; shl.b32 %r5, %r1, 4;
    add.s32 %r23, %r19, %r5; xor.b32 %r6, %r5, 16; add.s32 %r24, %r19, %r6;
    cp.async.cg.shared.global [%r23], [%rd2], 16, 16; cp.async.commit_group;)";
  const std::string wait = "cp.async.wait_group 0;";
  const std::string own = "ld.shared.u32 %r9, [%r23];", neighbour = "ld.shared.u32 %r9, [%r24];";
  CHECK(fault(copy + wait + own).empty());
  CHECK_THAT(fault(copy + own + wait), Catch::Contains("before an asynchronous copy"));
  CHECK_THAT(fault(copy + "cp.async.wait_group 1;" + own + wait), Catch::Contains("before an asynchronous copy"));
  CHECK_THAT(fault(copy + wait + neighbour), Catch::Contains("without a barrier"));
  CHECK(fault(copy + wait + "bar.sync 0;" + neighbour).empty());
  CHECK_THAT(fault(copy), Catch::Contains("nobody waited for"));
}

TEST_CASE("barriers of a block: all threads, the same one") {
  CHECK_THAT(fault("setp.gt.u32 %p1, %r1, 40; @%p1 ret; bar.sync 0;"), Catch::Contains("left the kernel"));
  CHECK_THAT(fault("setp.gt.u32 %p1, %r1, 31; @%p1 bra B; bar.sync 0; bra.uni E; B: bar.sync 0; E: mov.u32 %r9, 0;"),
             Catch::Contains("different barriers"));
  CHECK_THAT(
      fault("setp.gt.u32 %p1, %r1, 15; @%p1 bra B; bar.sync 0; bra.uni E; B: bar.sync 0; E: mov.u32 %r9, 0;", 32),
      Catch::Contains("different barriers"));
}

TEST_CASE("launches that no GPU takes") {
  CHECK_THAT(fault("mov.u32 %r9, 0;", 1025), Catch::Contains("threads"));
  CHECK_THAT(fault_of("mov.u32 %r9, 0;", {32, 0, 233000}, kTile), Catch::Contains("shared memory"));
}

TEST_CASE("traffic is counted in sectors and waves") {
  std::array<std::uint64_t, ptx::kLanes> dense{}, strided{}, same{};
  for (std::size_t lane = 0; lane < ptx::kLanes; ++lane)
    dense[lane] = 4096 + 4 * lane, strided[lane] = 4096 + 128 * lane;
  same.fill(4096);
  CHECK(ptx::sectors(dense, ptx::kAllLanes, 4) == 4);
  CHECK(ptx::sectors(strided, ptx::kAllLanes, 4) == 32);
  CHECK(ptx::sectors(strided, 0xff, 16) == 8);
  CHECK(ptx::distinct_bytes(same, ptx::kAllLanes, 4) == 4);
  std::int64_t least = 0;
  CHECK(ptx::waves(dense, ptx::kAllLanes, 4, least) == 1);
  CHECK(ptx::waves(strided, ptx::kAllLanes, 4, least) == 32);
  CHECK(least == 1);
  CHECK(ptx::waves(same, ptx::kAllLanes, 4, least) == 1);
  CHECK(ptx::waves(strided, ptx::kAllLanes, 16, least) == 32);
  CHECK(least == 4);
}
