// Linears whose operands are fp8: docs/numerics.md, contract 8.
#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"
#include "tessera/base/fp8.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Rounded {
  Tensor tensor;
  float factor = 0;
};

Rounded rounded(Device& device, const Tensor& from, std::int64_t rows, std::int64_t columns, DType dtype, Fp8 type) {
  Rounded to{Tensor(rows, columns, dtype), 0};
  device->to_fp8(*device.stream, {rows, columns, type, from.view(), to.tensor.view(), &to.factor});
  CHECK(to.tensor.intact());
  return to;
}

/// What an operand is taken for: its fp8 numbers, scaled back.
Doubles values_of(const Rounded& operand) {
  Doubles values = operand.tensor.values();
  for (double& v : values) v *= operand.factor;
  return values;
}

/// Computes a b of [rows, depth] and [depth, columns], with a or b read transposed.
Doubles multiplied(const Doubles& a, bool a_turned, const Doubles& b, bool b_turned, std::int64_t rows,
                   std::int64_t depth, std::int64_t columns) {
  Doubles c(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += (a_turned ? at(a, rows, k, i) : at(a, depth, i, k)) *
               (b_turned ? at(b, depth, j, k) : at(b, columns, k, j));
      c[static_cast<std::size_t>(i * columns + j)] = sum;
    }
  }
  return c;
}

}  // namespace

TEST_CASE("an operand in fp8 has one scale, which takes its largest magnitude to the largest number", "[fp8]") {
  if (tested_kind() != DeviceKind::cpu) return;
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const Fp8 type = GENERATE(Fp8::e4m3, Fp8::e5m2);
  Device one(1), three(3);
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 1030}, {65, 33}, {130, 7}}) {
    const Tensor x = Tensor::random(rows, columns, dtype, 5, 3e-4);
    const Rounded got = rounded(one, x, rows, columns, dtype, type);
    const Doubles from = x.values(), to = got.tensor.values();
    double largest = 0;
    for (const double v : from) largest = std::max(largest, std::abs(v));
    const float scale = largest_of(type) / static_cast<float>(largest);
    CHECK(got.factor == 1 / scale);
    for (std::size_t i = 0; i < from.size(); ++i)
      REQUIRE(to[i] == round_to_fp8(type, static_cast<float>(from[i]) * scale));
    const Rounded again = rounded(three, x, rows, columns, dtype, type);
    CHECK((again.tensor.same_bits(got.tensor) && again.factor == got.factor));
  }
}

TEST_CASE("zeros have the scale 1, tiny numbers a finite one, and what is not finite has none", "[fp8]") {
  if (tested_kind() != DeviceKind::cpu) return;
  Device device;
  Tensor x(2, 3, DType::fp32);
  const auto factor_with = [&](float number) {
    std::fill_n(x.floats(), 6, 0.0f);
    x.floats()[4] = number;
    return rounded(device, x, 2, 3, DType::fp32, Fp8::e4m3).factor;
  };
  CHECK(factor_with(0) == 1);
  CHECK(factor_with(-448) == 1);
  CHECK(factor_with(1e-42f) == 0x1p-126f);
  CHECK(std::isnan(factor_with(std::numeric_limits<float>::infinity())));
  CHECK(std::isnan(factor_with(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("linears of fp8 operands multiply their numbers, and scale back", "[fp8][linear]") {
  if (tested_kind() != DeviceKind::cpu) return;
  Device device;
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const WeightLayout layout = GENERATE(WeightLayout::in_out, WeightLayout::out_in);
  const std::int64_t tokens = 70, in = 37, out = 130;
  const bool turned = layout == WeightLayout::out_in;
  const std::int64_t height = turned ? out : in, width = turned ? in : out;
  const Tensor bias = Tensor::random(1, out, dtype, 3), gradient = Tensor::random(tokens, out, dtype, 4, 1e-3);
  const Rounded x = rounded(device, Tensor::random(tokens, in, dtype, 1), tokens, in, dtype, Fp8::e4m3);
  const Rounded w = rounded(device, Tensor::random(height, width, dtype, 2, 0.1), height, width, dtype, Fp8::e4m3);
  const Rounded g = rounded(device, gradient, tokens, out, dtype, Fp8::e5m2);

  Tensor y(tokens, out, dtype), dx(tokens, in, dtype), dw(height, width, DType::fp32), db(1, out, DType::fp32);
  LinearForward f;
  f.tokens = tokens, f.in = in, f.out = out, f.layout = layout, f.bias = bias.view(), f.output = y.view();
  f.input = x.tensor.view(), f.weight = w.tensor.view(), f.input_factor = &x.factor, f.weight_factor = &w.factor;
  device->linear_forward(*device.stream, f);
  Doubles expected = multiplied(values_of(x), false, values_of(w), turned, tokens, in, out);
  for (std::int64_t i = 0; i < tokens * out; ++i)
    expected[static_cast<std::size_t>(i)] += bias.values()[static_cast<std::size_t>(i % out)];
  CHECK(relative_error(y.values(), expected) < tolerance(dtype));

  LinearBackward b;
  b.tokens = tokens, b.in = in, b.out = out, b.layout = layout;
  b.input = x.tensor.view(), b.weight = w.tensor.view(), b.output_gradient = g.tensor.view();
  b.exact_gradient = gradient.view();
  b.input_factor = &x.factor, b.weight_factor = &w.factor, b.gradient_factor = &g.factor;
  b.input_gradient = dx.view(), b.weight_gradient = dw.gradient(), b.bias_gradient = db.gradient();
  device->linear_backward(*device.stream, b);
  CHECK(relative_error(dx.values(), multiplied(values_of(g), false, values_of(w), !turned, tokens, out, in)) <
        tolerance(dtype));
  const Doubles left = turned ? values_of(g) : values_of(x), right = turned ? values_of(x) : values_of(g);
  CHECK(relative_error(dw.values(), multiplied(left, true, right, false, height, tokens, width)) <
        tolerance(DType::fp32));
  Doubles sums(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < tokens * out; ++i)
    sums[static_cast<std::size_t>(i % out)] += gradient.values()[static_cast<std::size_t>(i)];
  CHECK(relative_error(db.values(), sums) < tolerance(DType::fp32));
}
