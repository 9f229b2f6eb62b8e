// What matmuls of 8-bit floats ask of cuBLASLt.

#include <array>
#include <catch2/catch.hpp>

#include "gpu_emulator/libraries/cublaslt/cublaslt.hpp"
#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// A linear of 32 tokens, 48 columns to 64, whose operands all have the same numbers: only what is called matters.
struct EightBitLinear {
  EightBitLinear() : codes(64, 64, DType::e4m3), factors(32), y(32, 64, DType::bf16), dx(32, 48, DType::bf16) {
    std::memset(codes.data(), 0x38, static_cast<std::size_t>(64 * 64));  // 1
    factors.as<float>()[0] = factors.as<float>()[1] = 0.5f;
  }
  Fp8Operand operand(std::int64_t rows, std::int64_t columns, std::int64_t factor = 0) const {
    return {{codes.data(), DType::e4m3, columns}, {codes.data(), DType::e4m3, rows}, factors.as<float>() + factor};
  }
  LinearForward forward(std::int64_t factor = 0) {
    LinearForward a;
    a.tokens = 32, a.in = 48, a.out = 64, a.layout = WeightLayout::out_in;
    a.input = dx.view(), a.weight = weight.view(), a.output = y.view();
    a.input8 = operand(32, 48, factor), a.weight8 = operand(64, 48);
    return a;
  }
  LinearBackward backward() {
    LinearBackward a;
    a.tokens = 32, a.in = 48, a.out = 64, a.layout = WeightLayout::out_in;
    a.input = dx.view(), a.weight = weight.view(), a.output_gradient = y.view();
    a.input_gradient = dx.view(), a.weight_gradient = dw.gradient();
    a.input8 = operand(32, 48), a.weight8 = operand(64, 48), a.gradient8 = operand(32, 64);
    return a;
  }

  Tensor codes;
  Guarded factors;
  Tensor y, dx;
  Tensor weight{64, 48, DType::bf16}, dw{64, 48, DType::fp32};
};

}  // namespace

TEST_CASE("forward accumulates fast, and gradients do not") {
  Device device;
  EightBitLinear linear;
  static_cast<void>(emulator::take_fp8_launches());
  device.run(linear.forward());
  CHECK(emulator::take_fp8_launches() == std::array{0, 1});
  for (const double y : linear.y.values()) REQUIRE(y == 48.0 / 4);
  device.run(linear.backward());
  CHECK(emulator::take_fp8_launches() == std::array{2, 0});
  for (const double dx : linear.dx.values()) REQUIRE(dx == 64.0 / 4);
  for (const double dw : linear.dw.values()) REQUIRE(dw == 32.0 / 4);
}

TEST_CASE("a factor that 16 does not divide is refused, as the library does") {
  Device device;
  EightBitLinear linear;
  CHECK_THROWS_AS(device.run(linear.forward(1)), Error);
}
