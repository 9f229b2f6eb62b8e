// Partial sums that norm backward leaves of its input's gradient, and the gradient of a bias that is made of them.

#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"
#include "tessera/base/math.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Checks the sums of what norm backward has stored, that nothing else changes with them, and a bias's gradient.
void check_sums(Device& device, std::int64_t tokens, std::int64_t width, DType dtype, bool adds) {
  INFO(name_of(dtype) << " " << tokens << "x" << width << " adds " << adds);
  const std::int64_t rows = kernel_needs(tested_kind()).gradient_sum_rows(tokens, width);
  REQUIRE((rows > 0) == (tested_kind() == DeviceKind::cuda));
  if (rows == 0) return;
  const Tensor x = Tensor::random(tokens, width, dtype, 1, 2.0), gain = Tensor::random(1, width, dtype, 2);
  const Tensor dy = Tensor::random(tokens, width, dtype, 4), mean = Tensor::random(1, tokens, DType::fp32, 5, 0.1);
  const Tensor rstd = Tensor::random(1, tokens, DType::fp32, 6), before = Tensor::random(tokens, width, dtype, 7);
  Tensor dx[] = {before, before}, dgain[] = {{1, width, DType::fp32}, {1, width, DType::fp32}};
  Tensor dbias[] = {{1, width, DType::fp32}, {1, width, DType::fp32}}, sums(rows, width, DType::fp32);
  for (const int i : {0, 1}) {
    Guarded scratch(kernel_needs(tested_kind()).norm_backward(tokens, width));
    NormBackward b;
    b.tokens = tokens, b.width = width, b.input = x.view(), b.gain = gain.view(), b.mean = mean.floats();
    b.reciprocal_deviation = rstd.floats(), b.output_gradient = dy.view(), b.input_gradient = dx[i].view();
    b.input_adds = adds, b.gain_gradient = dgain[i].gradient(), b.bias_gradient = dbias[i].gradient();
    if (i == 1) b.input_gradient_sums = {sums.floats(), rows};
    b.scratch = scratch.data();
    device.run(b);
    CHECK((scratch.intact() && dx[i].intact() && dgain[i].intact() && dbias[i].intact() && sums.intact()));
  }
  CHECK((dx[0].same_bits(dx[1]) && dgain[0].same_bits(dgain[1]) && dbias[0].same_bits(dbias[1])));
  const Doubles stored = dx[1].values();
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    Tensor bias = Tensor::random(1, width, gradient, 8);
    Doubles expected = adds ? bias.values() : Doubles(static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < stored.size(); ++i) expected[i % expected.size()] += stored[i];
    LinearBackward l;
    l.tokens = tokens, l.in = 3, l.out = width, l.output_gradient = dx[1].view();
    l.output_gradient_sums = {sums.floats(), rows}, l.bias_gradient = bias.gradient(adds);
    device.run(l);
    CHECK(relative_error(bias.values(), expected) < tolerance(gradient));
    CHECK((bias.intact() && sums.intact()));
  }
}

}  // namespace

TEST_CASE("norm backward leaves sums of its input's gradient, and a bias takes its own gradient from them", "[norm]") {
  Device device;
  CHECK(kernel_needs(tested_kind()).gradient_sum_rows(35, 2049) == 0);  // too wide for a GPU's registers
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t width : {1, 7, 72, 100, 768, 1000, 1600, 2048}) {
      check_sums(device, width < 80 ? 70 : 35, width, dtype, false);
      check_sums(device, width < 80 ? 35 : 17, width, dtype, true);
    }
  }
}

TEST_CASE("norm backward's groups of tokens fill an H100's multiprocessors", "[norm]") {
  if (tested_kind() != DeviceKind::cuda) return;
  constexpr std::int64_t kRegisters = 65536, kOfThread = 80, kMultiprocessors = 132;  // 80: its __launch_bounds__
  for (const std::int64_t width : {512, 768, 1024, 1280, 1536, 1600, 2048}) {
    const std::int64_t row = round_up(ceil_div(width, std::int64_t{8}), std::int64_t{32});  // threads
    const std::int64_t block = row * std::min<std::int64_t>(384 / row, 8);
    const std::int64_t at_work = kRegisters / (block * kOfThread) * kMultiprocessors;
    for (const std::int64_t tokens : {8192, 16384, 32768, 65536}) {
      INFO(tokens << " x " << width << ", " << at_work << " blocks at work");
      const std::int64_t groups = kernel_needs(DeviceKind::cuda).gradient_sum_rows(tokens, width);
      CHECK(10 * groups > 9 * round_up(groups, at_work));
    }
  }
}
