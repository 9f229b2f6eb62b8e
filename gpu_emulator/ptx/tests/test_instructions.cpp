// Results of instructions against values from the PTX ISA's descriptions.

#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include "gpu_emulator/ptx/tests/played.hpp"

using namespace ptx::testing;

namespace {

/// The 32 bits that an expression over immediates leaves in %r9, in lane 0.
std::uint32_t result(const std::string& body) {
  return played<std::uint32_t>(body + "\n@!%p9 st.global.u32 [%rd1], %r9;", {0}, {1})[0];
}
std::uint32_t of_floats(const std::string& instruction, float a, float b = 0, float c = 0, int operands = 2) {
  const auto hex = [](float x) {
    char text[16];
    std::snprintf(text, sizeof text, "0f%08X", std::bit_cast<std::uint32_t>(x));
    return std::string(text);
  };
  std::string body = instruction + " %r9, " + hex(a);
  if (operands > 1) body += ", " + hex(b);
  if (operands > 2) body += ", " + hex(c);
  return result(body + ";");
}

}  // namespace

TEST_CASE("integers wrap around, shifts are clamped, nothing divides by zero") {
  CHECK(result("add.s32 %r9, 0x7fffffff, 1;") == 0x80000000u);
  CHECK(result("sub.s32 %r9, 0, 1;") == 0xffffffffu);
  CHECK(result("mul.lo.s32 %r9, 0x10001, 0x10001;") == 0x20001u);
  CHECK(result("mul.hi.u32 %r9, 0xffffffff, 0xffffffff;") == 0xfffffffeu);
  CHECK(result("mul.hi.s32 %r9, -1, 5;") == 0xffffffffu);
  CHECK(result("mul.wide.s32 %rd9, -2, 3; cvt.u32.u64 %r9, %rd9;") == 0xfffffffau);
  CHECK(result("mul.wide.u32 %rd9, -1, 2; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r9, %rd9;") == 1);
  CHECK(result("mad.lo.s32 %r9, 3, -4, 5;") == static_cast<std::uint32_t>(-7));
  CHECK(result("shl.b32 %r9, 1, 32;") == 0);
  CHECK(result("shr.u32 %r9, 0x80000000, 40;") == 0);
  CHECK(result("shr.s32 %r9, 0x80000000, 40;") == 0xffffffffu);
  CHECK(result("shr.s32 %r9, -8, 1;") == static_cast<std::uint32_t>(-4));
  CHECK(result("div.s32 %r9, -7, 2;") == static_cast<std::uint32_t>(-3));
  CHECK(result("div.u32 %r9, 7, 0;") == 0xffffffffu);
  CHECK(result("rem.s32 %r9, -7, 2;") == static_cast<std::uint32_t>(-1));
  CHECK(result("min.s32 %r9, -1, 1;") == 0xffffffffu);
  CHECK(result("max.u32 %r9, -1, 1;") == 0xffffffffu);
  CHECK(result("cvt.s64.s32 %rd9, -5; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r9, %rd9;") == 0xffffffffu);
}

TEST_CASE("fields of bits") {
  CHECK(result("bfi.b32 %r9, 0x5, 0xffffffff, 8, 4;") == 0xfffff5ffu);
  CHECK(result("bfi.b32 %r9, 0x5, 0x12345678, 8, 0;") == 0x12345678u);
  CHECK(result("prmt.b32 %r9, 0x33221100, 0x77665544, 0x7250;") == 0x77225500u);
  CHECK(result("prmt.b32 %r9, 0x80, 0, 0x8888;") == 0xffffffffu);
  CHECK(result("popc.b32 %r9, 0xf0f0;") == 8);
  CHECK(result("brev.b32 %r9, 0x1;") == 0x80000000u);
  CHECK(result("bfind.shiftamt.u32 %r9, 0x00800000;") == 8);
  CHECK(result("bfind.shiftamt.u32 %r9, 0;") == 0xffffffffu);
  CHECK(result("mov.b32 %r9, {0x1234, 0x5678};") == 0x56781234u);
  CHECK(result("mov.b32 {%rs1, %rs2}, 0x56781234; mov.b32 %r9, {%rs2, %rs1};") == 0x12345678u);
  CHECK(result("mov.b64 {%r1, %r9}, 0x0000000900000001;") == 9);
}

TEST_CASE("floats: rounding, NaN, comparisons that are ordered and not") {
  const float nan = std::bit_cast<float>(0xffc12345u);
  CHECK(of_floats("add.rn.f32", 16777216, 1) == std::bit_cast<std::uint32_t>(16777216.0f));
  CHECK(of_floats("fma.rn.f32", 3, 4, 5, 3) == std::bit_cast<std::uint32_t>(17.0f));
  CHECK(of_floats("fma.rm.f32", 16777216, 1, 1, 3) == std::bit_cast<std::uint32_t>(16777216.0f));
  CHECK(of_floats("fma.rm.f32", -16777216, 1, -1, 3) == std::bit_cast<std::uint32_t>(-16777218.0f));
  CHECK(of_floats("max.f32", nan, 2) == std::bit_cast<std::uint32_t>(2.0f));
  CHECK(of_floats("max.NaN.f32", nan, 2) == 0x7fffffffu);
  CHECK(of_floats("cvt.sat.f32.f32", 1.5f, 0, 0, 1) == std::bit_cast<std::uint32_t>(1.0f));
  CHECK(of_floats("cvt.sat.f32.f32", nan, 0, 0, 1) == 0);
  CHECK(of_floats("ex2.approx.ftz.f32", -3, 0, 0, 1) == std::bit_cast<std::uint32_t>(0.125f));
  CHECK(of_floats("ex2.approx.ftz.f32", -130, 0, 0, 1) == 0);
  CHECK(of_floats("rcp.approx.ftz.f32", 4, 0, 0, 1) == std::bit_cast<std::uint32_t>(0.25f));
  CHECK(of_floats("rcp.approx.ftz.f32", -1e-39f, 0, 0, 1) == 0xff800000u);
  CHECK(of_floats("rcp.approx.ftz.f32", 2e38f, 0, 0, 1) == 0);
  for (const auto& [comparison, with_nan] :
       {std::pair("lt", 0u), {"leu", 1u}, {"ne", 0u}, {"neu", 1u}, {"num", 0u}, {"nan", 1u}, {"eq", 0u}, {"geu", 1u}}) {
    INFO(comparison);
    CHECK(result("setp." + std::string(comparison) + ".f32 %p1, 0f7FC00000, 0f3F800000; selp.u32 %r9, 1, 0, %p1;") ==
          with_nan);
  }
}

TEST_CASE("conversions to 16 bits: ties to even, one NaN, the first operand above") {
  CHECK(result("cvt.rn.bf16.f32 %rs1, 0f3F808000; cvt.u32.u16 %r9, %rs1;") == 0x3f80);
  CHECK(result("cvt.rn.bf16.f32 %rs1, 0f3F818000; cvt.u32.u16 %r9, %rs1;") == 0x3f82);
  CHECK(result("cvt.rn.bf16.f32 %rs1, 0fFFC12345; cvt.u32.u16 %r9, %rs1;") == 0x7fff);
  CHECK(result("cvt.rn.f16.f32 %rs1, 0f3F801000; cvt.u32.u16 %r9, %rs1;") == 0x3c00);
  CHECK(result("cvt.rn.f16.f32 %rs1, 0f477FF000; cvt.u32.u16 %r9, %rs1;") == 0x7c00);
  CHECK(result("cvt.rn.f16.f32 %rs1, 0fFFC12345; cvt.u32.u16 %r9, %rs1;") == 0x7fff);
  CHECK(result("cvt.rn.bf16x2.f32 %r9, 0f3F800000, 0f40000000;") == 0x3f804000u);
  CHECK(result("cvt.rn.f16x2.f32 %r9, 0f3F800000, 0f40000000;") == 0x3c004000u);
  CHECK(result("mov.u16 %rs1, 0x3555; cvt.f32.f16 %r9, %rs1;") == std::bit_cast<std::uint32_t>(0.333251953125f));
}

TEST_CASE("conversions to 8 bits: ties to even, the largest number instead of more, one NaN, the first operand above") {
  const auto codes = [](const std::string& type, float upper, float lower) {
    char text[40];
    std::snprintf(text, sizeof text, "0f%08X, 0f%08X", std::bit_cast<std::uint32_t>(upper),
                  std::bit_cast<std::uint32_t>(lower));
    return result("cvt.rn.satfinite." + type + "x2.f32 %rs1, " + text + "; cvt.u32.u16 %r9, %rs1;");
  };
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(codes("e4m3", 1, 448) == 0x387e);
  CHECK(codes("e4m3", 1.0625f, 1.1875f) == 0x383a);
  CHECK(codes("e4m3", -infinity, 1e9f) == 0xfe7e);
  CHECK(codes("e4m3", 0x1p-9f, 0x1p-10f) == 0x0100);
  CHECK(codes("e4m3", -0.0f, 0x1.8p-10f) == 0x8001);
  CHECK(codes("e4m3", 0x1.fp-7f, std::bit_cast<float>(0xffc12345u)) == 0x087f);  // the smallest normal number
  CHECK(codes("e5m2", 1, 57344) == 0x3c7b);
  CHECK(codes("e5m2", 1.125f, 1.375f) == 0x3c3e);
  CHECK(codes("e5m2", infinity, -0x1p-16f) == 0x7b81);
}

TEST_CASE("the largest of all threads' numbers, whatever their order") {
  const std::string body = std::string(kOwnPlace) +
                           "ld.global.u32 %r2, [%rd2]; add.s64 %rd3, %rd1, 256;\n"
                           "atom.global.max.u32 %r3, [%rd3], %r2;";
  std::vector<std::uint32_t> memory(65);
  for (std::uint32_t i = 0; i < 64; ++i) memory[i] = (i * 37 % 64) << 26;
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    CHECK(played<std::uint32_t>(body, memory, {64, seed}).back() == 63u << 26);
    std::vector<std::uint32_t> full = memory;
    full.back() = 0xffffffffu;
    CHECK(played<std::uint32_t>(body, full, {64, seed}).back() == 0xffffffffu);
  }
}

TEST_CASE("what is not known is refused with its name") {
  CHECK_THROWS_WITH(result("tanh.approx.f32 %r9, 0f3F800000;"),
                    Catch::Contains("does not know") && Catch::Contains("tanh.approx.f32"));
  CHECK(result("mov.u32 %r9, 1; bra.uni OVER; tanh.approx.f32 %r9, 0f3F800000; OVER: mov.u32 %r8, 0;") == 1);
  CHECK_THROWS_WITH(result("bra nowhere;"), Catch::Contains("nowhere"));
  CHECK_THROWS_WITH(result("ld.global.v2.u32 {%r9}, [%rd1];"), Catch::Contains("another length"));
}
