#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/kernels/needs.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kTokens = 70, kWidth = 333;

/// Returns multiples of 2^-10 between -range and range: the same on every machine, whatever its libm.
Tensor drawn(std::int64_t rows, DType dtype, std::uint32_t seed, int range = 4) {
  Doubles values(static_cast<std::size_t>(rows * kWidth));
  std::mt19937 generator(seed);
  for (double& value : values) {
    value =
        static_cast<double>(static_cast<std::int64_t>(generator() % (2048U * static_cast<unsigned>(range)))) / 1024.0 -
        range;
  }
  Tensor t(rows, kWidth, dtype);
  from_doubles(values, dtype, t.data());
  return t;
}

/// FNV-1a of all outputs of all kernels so far.
class Hash {
 public:
  void add(const void* data, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; ++i) {
      value_ = (value_ ^ static_cast<std::uint64_t>(static_cast<const std::byte*>(data)[i])) * 0x100000001b3ULL;
    }
  }
  void add(const Tensor& t, std::int64_t rows, DType dtype) { add(t.data(), rows * kWidth * size_of(dtype)); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::uint64_t norms(Device& device, DType dtype) {
  Hash hash;
  const Tensor x = drawn(kTokens, dtype, 1), gain = drawn(1, dtype, 2), bias = drawn(1, dtype, 3),
               upstream = drawn(kTokens, dtype, 4);
  for (const bool subtract_mean : {true, false}) {
    Tensor y(kTokens, kWidth, dtype), dx(kTokens, kWidth, dtype), mean(1, kTokens, DType::fp32),
        deviation(1, kTokens, DType::fp32), gain_gradient(1, kWidth, DType::fp32);
    NormForward f;
    f.tokens = kTokens, f.width = kWidth, f.epsilon = 1e-5f, f.subtract_mean = subtract_mean, f.input = x.view();
    f.gain = gain.view(), f.bias = subtract_mean ? bias.view() : ConstView{}, f.output = y.view();
    f.mean = subtract_mean ? mean.floats() : nullptr, f.reciprocal_deviation = deviation.floats();
    device.run(f);
    Guarded scratch(kernel_needs(tested_kind()).norm_backward(kTokens, kWidth));
    NormBackward b;
    b.tokens = kTokens, b.width = kWidth, b.subtract_mean = subtract_mean, b.input = x.view(), b.gain = gain.view();
    b.mean = f.mean, b.reciprocal_deviation = deviation.floats(), b.output_gradient = upstream.view();
    b.input_gradient = dx.view(), b.gain_gradient = gain_gradient.gradient(), b.scratch = scratch.data();
    device.run(b);
    hash.add(y, kTokens, dtype), hash.add(dx, kTokens, dtype), hash.add(gain_gradient, 1, DType::fp32);
  }
  return hash.value();
}

std::uint64_t activations(Device& device, DType dtype) {
  Hash hash;
  const Tensor gate = drawn(kTokens, dtype, 5, 30), up = drawn(kTokens, dtype, 6), upstream = drawn(kTokens, dtype, 7);
  for (const GateActivation activation : {GateActivation::silu, GateActivation::gelu}) {
    Tensor y(kTokens, kWidth, dtype), gate_gradient(kTokens, kWidth, dtype), up_gradient(kTokens, kWidth, dtype);
    device.run(GluForward{kTokens, kWidth, gate.view(), up.view(), y.view(), activation});
    GluBackward b;
    b.tokens = kTokens, b.width = kWidth, b.gate = gate.view(), b.up = up.view(), b.output_gradient = upstream.view();
    b.gate_gradient = gate_gradient.view(), b.up_gradient = up_gradient.view(), b.activation = activation;
    device.run(b);
    for (const Tensor* t : {&y, &gate_gradient, &up_gradient}) hash.add(*t, kTokens, dtype);
  }
  Tensor y(kTokens, kWidth, dtype);
  device.run(GeluForward{kTokens, kWidth, gate.view(), y.view()});
  hash.add(y, kTokens, dtype);
  StepScalars scalars;
  scalars.seed = 7, scalars.step = 3;
  Dropout dropout;
  dropout.probability = 0.3f, dropout.sequence = 35, dropout.scalars = &scalars;
  device.run(
      ApplyDropout{.rows = kTokens, .columns = kWidth, .input = up.view(), .output = y.view(), .dropout = dropout});
  hash.add(y, kTokens, dtype);
  float factor = 0;
  for (const Fp8 type : {Fp8::e4m3, Fp8::e5m2}) {
    device.run(ToFp8{kTokens, kWidth, type, gate.view(), y.view(), {}, &factor});
    hash.add(y, kTokens, dtype), hash.add(&factor, sizeof factor);
  }
  return hash.value();
}

std::uint64_t updates(Device& device, DType dtype) {
  Hash hash;
  Tensor master = drawn(kTokens, DType::fp32, 8), m = drawn(kTokens, dtype, 9);
  Tensor v(kTokens, kWidth, dtype);
  Doubles squares = m.values();
  for (double& square : squares) square *= square;
  from_doubles(squares, dtype, v.data());
  const Tensor gradient = drawn(kTokens, dtype, 10);
  StepScalars scalars;
  scalars.learning_rate = 1e-2f;
  const std::int64_t elements = kTokens * kWidth;
  const std::vector<DecayRun> runs = {{0, 1001, true}, {1001, elements, false}};
  const std::vector<void*> states{m.data(), v.data()};
  ParameterUpdate a;
  a.elements = elements, a.master = master.floats(), a.states = states, a.states_dtype = dtype, a.runs = runs;
  a.scalars = &scalars, a.gradient = gradient.data(), a.gradient_dtype = dtype;
  device.run(a);
  hash.add(master, kTokens, DType::fp32), hash.add(m, kTokens, dtype), hash.add(v, kTokens, dtype);
  ExactSum sum{};
  device.run(SquareSum{{gradient.data(), dtype}, elements, &sum});
  const double squared = sum.value();
  hash.add(&squared, sizeof squared);
  return hash.value();
}

}  // namespace

// The figures were written on x86-64. Arm must have the same, or a checkpoint would not go on with the same numbers.
TEST_CASE("Norms, activations, rounding and updates have the same bits on every architecture", "[architectures]") {
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    Device device(2, set);
    INFO(name_of(set));
    CHECK(norms(device, DType::fp32) == 0xc05cd134111986d1ULL);
    CHECK(norms(device, DType::bf16) == 0xbb6a33ccc038cb26ULL);
    CHECK(norms(device, DType::fp16) == 0x91f4d073165e1bf3ULL);
    CHECK(activations(device, DType::fp32) == 0x0e2f95f259622c2dULL);
    CHECK(activations(device, DType::bf16) == 0xc69f66c13dbcde14ULL);
    CHECK(activations(device, DType::fp16) == 0xfacefa278b8f868cULL);
    CHECK(updates(device, DType::fp32) == 0xf30006b43100d360ULL);
    CHECK(updates(device, DType::bf16) == 0xde90b02fbbf66333ULL);
  }
}
