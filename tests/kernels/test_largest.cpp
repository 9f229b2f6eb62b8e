// Kernels that find the largest magnitude of what they store (kernels/arguments.hpp).
#include <catch2/catch.hpp>
#include <functional>

#include "kernels/tensors.hpp"
#include "tessera/base/math.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kShapes[][2] = {{1, 1}, {3, 15}, {5, 17}, {33, 64}, {9, 1030}, {5, 2056}, {2, 4104}, {70, 257}};

/// The largest magnitude of stored numbers, by bits.
float largest_of_stored(const Tensor& t) {
  std::uint32_t most = 0;
  for (const double x : t.values())
    most = std::max(most, std::bit_cast<std::uint32_t>(std::abs(static_cast<float>(x))));
  return std::bit_cast<float>(most);
}

/// A number that a kernel raises. It begins at 0.
class Raised {
 public:
  Raised() : memory_(sizeof(float)) { *number() = 0; }
  float* number() { return memory_.as<float>(); }
  /// Checks it, with what it was raised to before.
  void check(const Tensor& stored, const char* of) {
    INFO(of);
    before_ = std::max(std::bit_cast<std::uint32_t>(largest_of_stored(stored)), before_);
    if (std::isnan(std::bit_cast<float>(before_)))
      CHECK(std::isnan(*number()));
    else
      CHECK(*number() == std::bit_cast<float>(before_));
    CHECK(memory_.intact());
  }

 private:
  Guarded memory_;
  std::uint32_t before_ = 0;
};

/// Calls f(tokens, width, dtype, x, offset) with inputs of every kind: random ones, then larger and smaller ones,
/// zeros, and one number that is not finite, at the end.
void with_inputs(const std::function<void(std::int64_t, std::int64_t, DType, const std::function<Tensor(int)>&)>& f) {
  for (const DType dtype : kFloatTypes) {
    for (const auto& [tokens, width] : kShapes) {
      INFO(name_of(dtype) << " " << tokens << " x " << width);
      f(tokens, width, dtype, [&, tokens = tokens, width = width](int turn) {
        constexpr double kScales[] = {1, 7, 0.5, 0, 1, 1};
        Tensor x = Tensor::random(tokens, width, dtype, static_cast<std::uint32_t>(turn), kScales[turn]);
        Doubles values = x.values();
        if (turn == 4) values.back() = std::numeric_limits<double>::infinity();
        if (turn == 5) values.back() = std::numeric_limits<double>::quiet_NaN();
        from_doubles(values, dtype, x.data());
        return x;
      });
    }
  }
}
constexpr int kTurns = 6;

}  // namespace

TEST_CASE("gates and their gradients find their largest magnitudes", "[glu][fp8]") {
  Device device(3);
  const GateActivation activation = GENERATE(GateActivation::silu, GateActivation::gelu);
  with_inputs([&](std::int64_t tokens, std::int64_t width, DType dtype, const std::function<Tensor(int)>& input) {
    const Tensor up = Tensor::random(tokens, width, dtype, 7), upstream = Tensor::random(tokens, width, dtype, 8);
    Raised forward, gate_raised, up_raised, again_raised, alone;
    for (int turn = 0; turn < kTurns; ++turn) {
      INFO(turn);
      const Tensor gate = input(turn);
      Tensor y(tokens, width, dtype), dg(tokens, width, dtype), du(tokens, width, dtype), again(tokens, width, dtype);
      device.run(GluForward{tokens, width, gate.view(), up.view(), y.view(), activation, forward.number()});
      forward.check(y, "output");
      GluBackward b{tokens,
                    width,
                    gate.view(),
                    up.view(),
                    upstream.view(),
                    dg.view(),
                    du.view(),
                    again.view(),
                    activation,
                    gate_raised.number(),
                    up_raised.number(),
                    again_raised.number()};
      device.run(b);
      gate_raised.check(dg, "gate"), up_raised.check(du, "up"), again_raised.check(y, "output again");
      CHECK(again.same_bits(y));
      Tensor other(tokens, width, dtype);
      b.gate_gradient = other.view(), b.output = {}, b.gate_largest = alone.number();
      b.up_largest = b.output_largest = nullptr;
      device.run(b);
      alone.check(dg, "gate alone");
      CHECK(other.same_bits(dg));
    }
  });
}

TEST_CASE("GELU finds the largest magnitude of its output", "[linear][fp8]") {
  const auto pieces = GENERATE(Pieces::usual, Pieces::loose);
  Device device(3, best_instruction_set(), pieces);
  with_inputs([&](std::int64_t tokens, std::int64_t width, DType dtype, const std::function<Tensor(int)>& input) {
    Raised raised, of_linear;
    for (int turn = 0; turn < kTurns; ++turn) {
      INFO(turn);
      const Tensor x = input(turn);
      Tensor y(tokens, width, dtype);
      device.run(GeluForward{
          .rows = tokens, .columns = width, .input = x.view(), .output = y.view(), .largest = raised.number()});
      raised.check(y, "gelu");
      if (width > 100) continue;
      constexpr std::int64_t kOut = 600;
      const Tensor weight = Tensor::random(width, kOut, dtype, 9, 0.5), bias = Tensor::random(1, kOut, dtype, 10);
      Tensor before(tokens, kOut, dtype), activated(tokens, kOut, dtype), again(tokens, kOut, dtype);
      LinearForward f;
      f.tokens = tokens, f.in = width, f.out = kOut, f.input = x.view(), f.weight = weight.view();
      f.bias = bias.view(), f.output = before.view(), f.activated = activated.view(), f.largest = of_linear.number();
      device.run(f);
      of_linear.check(activated, "linear");
      device.run(GeluForward{tokens, kOut, before.view(), again.view()});
      CHECK((again.same_bits(activated) || turn == 5));
    }
  });
}

TEST_CASE("norms and their backward find the largest magnitudes of what they store", "[norm][fp8]") {
  Device device(3);
  const bool subtract_mean = GENERATE(true, false), sums = GENERATE(false, true);
  with_inputs([&](std::int64_t tokens, std::int64_t width, DType dtype, const std::function<Tensor(int)>& input) {
    const KernelNeeds& needs = kernel_needs(tested_kind());
    const std::int64_t sum_rows = sums ? needs.gradient_sum_rows(tokens, width) : 0;
    if (sums && sum_rows == 0) return;
    const Tensor gain = Tensor::random(1, width, dtype, 7), bias = Tensor::random(1, width, dtype, 8);
    const Tensor upstream = Tensor::random(tokens, width, dtype, 9);
    Raised forward, normalized_raised, gradient_raised, alone;
    for (int turn = 0; turn < kTurns; ++turn) {
      INFO(turn);
      const Tensor x = input(turn);
      Tensor y(tokens, width, dtype), mean(1, tokens, DType::fp32), deviation(1, tokens, DType::fp32);
      NormForward f;
      f.tokens = tokens, f.width = width, f.epsilon = 1e-5f, f.subtract_mean = subtract_mean;
      f.gain_offset = turn % 2 == 0 ? 0.0f : 1.0f;
      f.input = x.view(), f.gain = gain.view(), f.output = y.view(), f.reciprocal_deviation = deviation.floats();
      if (subtract_mean) f.bias = bias.view(), f.mean = mean.floats();
      f.largest = forward.number();
      device.run(f);
      forward.check(y, "output");
      const Tensor before = Tensor::random(tokens, width, dtype, 10);
      Tensor dx = before, again(tokens, width, dtype), dg(1, width, DType::fp32), other = before;
      Tensor of_rows(std::max<std::int64_t>(1, sum_rows), width, DType::fp32);
      Guarded scratch(needs.norm_backward(tokens, width));
      NormBackward b;
      b.tokens = tokens, b.width = width, b.subtract_mean = subtract_mean, b.gain_offset = f.gain_offset;
      b.input = f.input, b.gain = f.gain, b.bias = f.bias, b.mean = f.mean;
      b.reciprocal_deviation = f.reciprocal_deviation, b.output_gradient = upstream.view();
      b.input_gradient = dx.view(), b.input_adds = true, b.normalized = again.view(), b.gain_gradient = dg.gradient();
      if (sums) b.input_gradient_sums = {of_rows.floats(), sum_rows};
      b.scratch = scratch.data();
      b.normalized_largest = normalized_raised.number(), b.gradient_largest = gradient_raised.number();
      device.run(b);
      normalized_raised.check(y, "output again"), gradient_raised.check(dx, "gradient");
      CHECK(again.same_bits(y));
      b.input_gradient = other.view(), b.normalized = {}, b.normalized_largest = nullptr;
      b.gradient_largest = alone.number();
      device.run(b);
      alone.check(dx, "gradient alone");
      CHECK((other.same_bits(dx) && scratch.intact()));
    }
  });
}
