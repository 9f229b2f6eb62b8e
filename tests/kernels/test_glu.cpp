#include <catch2/catch.hpp>
#include <deque>

#include "kernels/tensors.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/needs.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Reference {
  Doubles output, gate_gradient, up_gradient;
  Reference(const Doubles& gate, const Doubles& up, const Doubles& upstream, GateActivation activation) {
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i], s = 1 / (1 + std::exp(-x)), root = std::sqrt(2 / std::acos(-1.0));
      const double tanh = std::tanh(root * (x + 0.044715 * x * x * x));
      const bool gelu = activation == GateActivation::gelu;
      const double value = gelu ? x / 2 * (1 + tanh) : x * s;
      const double slope =
          gelu ? (1 + tanh + x * (1 - tanh * tanh) * root * (1 + 3 * 0.044715 * x * x)) / 2 : s * (1 + x * (1 - s));
      output.push_back(value * up[i]);
      up_gradient.push_back(upstream[i] * value);
      gate_gradient.push_back(upstream[i] * up[i] * slope);
    }
  }
};

struct Result {
  Tensor output, gate_gradient, up_gradient;
};

GluBackward backward_arguments(std::int64_t tokens, std::int64_t width, const Tensor& gate, const Tensor& up,
                               const Tensor& upstream, GateActivation activation) {
  GluBackward b;
  b.activation = activation;
  b.tokens = tokens, b.width = width;
  b.gate = gate.view(), b.up = up.view(), b.output_gradient = upstream.view();
  return b;
}

Result both(Device& device, std::int64_t tokens, std::int64_t width, DType dtype, const Tensor& gate, const Tensor& up,
            const Tensor& upstream, GateActivation activation) {
  Result r{Tensor(tokens, width, dtype), Tensor(tokens, width, dtype), Tensor(tokens, width, dtype)};
  device.run(GluForward{tokens, width, gate.view(), up.view(), r.output.view(), activation});
  GluBackward b = backward_arguments(tokens, width, gate, up, upstream, activation);
  b.gate_gradient = r.gate_gradient.view(), b.up_gradient = r.up_gradient.view();
  device.run(b);
  return r;
}

constexpr GateActivation kActivations[] = {GateActivation::silu, GateActivation::gelu};
constexpr std::int64_t kShapes[][2] = {{1, 1}, {3, 15}, {5, 17}, {33, 64}, {40, 257}};

}  // namespace

TEST_CASE("glu and its gradients against double precision, and in place", "[glu]") {
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    Device device(2, set);
    for (const DType dtype : kFloatTypes) {
      for (const auto& [tokens, width] : kShapes) {
        for (const GateActivation activation : kActivations) {
          INFO(name_of(set) << " " << name_of(dtype) << " " << tokens << " x " << width
                            << (activation == GateActivation::gelu ? " gelu" : " silu"));
          const Tensor gate = Tensor::random(tokens, width, dtype, 1, 4.0),
                       up = Tensor::random(tokens, width, dtype, 2), upstream = Tensor::random(tokens, width, dtype, 3);
          const Reference reference(gate.values(), up.values(), upstream.values(), activation);
          const Result r = both(device, tokens, width, dtype, gate, up, upstream, activation);
          CHECK(relative_error(r.output.values(), reference.output) < tolerance(dtype));
          CHECK(relative_error(r.gate_gradient.values(), reference.gate_gradient) < tolerance(dtype));
          CHECK(relative_error(r.up_gradient.values(), reference.up_gradient) < tolerance(dtype));
          CHECK((r.output.intact() && r.gate_gradient.intact() && r.up_gradient.intact()));

          Tensor over_gate = gate, over_up = up, over_upstream = upstream;
          device.run(GluForward{tokens, width, over_gate.view(), up.view(), over_gate.view(), activation});
          CHECK(over_gate.same_bits(r.output));
          device.run(GluForward{tokens, width, gate.view(), over_up.view(), over_up.view(), activation});
          CHECK(over_up.same_bits(r.output));
          over_up = up;
          GluBackward b = backward_arguments(tokens, width, gate, over_up, over_upstream, activation);
          Tensor again(tokens, width, dtype);
          b.gate_gradient = over_upstream.view(), b.up_gradient = over_up.view(), b.output = again.view();
          device.run(b);
          CHECK((over_upstream.same_bits(r.gate_gradient) && over_up.same_bits(r.up_gradient)));
          CHECK((again.same_bits(r.output) && again.intact()));
        }
      }
    }
  }
}

TEST_CASE("glu has the same bits on all instruction sets and thread counts", "[glu]") {
  const std::int64_t tokens = 37, width = 41;
  for (const DType dtype : kFloatTypes) {
    const Tensor gate = Tensor::random(tokens, width, dtype, 1, 30.0), up = Tensor::random(tokens, width, dtype, 2),
                 upstream = Tensor::random(tokens, width, dtype, 3);
    for (const GateActivation activation : kActivations) {
      std::vector<Result> results;
      for (const InstructionSet set : kInstructionSets) {
        if (!is_supported(set)) continue;
        for (const int threads : {1, 3}) {
          Device device(threads, set);
          results.push_back(both(device, tokens, width, dtype, gate, up, upstream, activation));
          CHECK(results.back().output.same_bits(results.front().output));
          CHECK(results.back().gate_gradient.same_bits(results.front().gate_gradient));
          CHECK(results.back().up_gradient.same_bits(results.front().up_gradient));
        }
      }
    }
  }
}

TEST_CASE("glu of gates that overflow exp is finite, and NaN is passed on", "[glu]") {
  Device device;
  Tensor gate = Tensor::random(1, 4, DType::fp32, 1);
  const Tensor up = Tensor::random(1, 4, DType::fp32, 2), upstream = Tensor::random(1, 4, DType::fp32, 3);
  gate.floats()[0] = 1e4f, gate.floats()[1] = -1e4f, gate.floats()[2] = NAN;
  for (const GateActivation activation : kActivations) {
    const Result r = both(device, 1, 4, DType::fp32, gate, up, upstream, activation);
    const double u0 = up.values()[0], d0 = upstream.values()[0];
    CHECK(static_cast<double>(r.output.floats()[0]) == Approx(1e4 * u0));
    CHECK(static_cast<double>(r.gate_gradient.floats()[0]) == Approx(d0 * u0));
    CHECK(static_cast<double>(r.up_gradient.floats()[0]) == Approx(d0 * 1e4));
    for (const Tensor* t : {&r.output, &r.gate_gradient, &r.up_gradient}) {
      CHECK(std::abs(t->floats()[1]) < (activation == GateActivation::silu ? 1e-30f : 1e-20f));
      CHECK(std::isnan(t->floats()[2]));
      CHECK(std::isfinite(t->floats()[3]));
    }
  }
}

TEST_CASE("a gate's backward makes the copies in fp8 of the gradients that it would store", "[fp8][glu]") {
  if (!kernel_needs(tested_kind()).packs_fp8() || !tested_has_fp8()) return;
  const DType dtype = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const auto activation = GENERATE(GateActivation::silu, GateActivation::gelu);
  const Fp8 type = GENERATE(Fp8::e4m3, Fp8::e5m2);
  Device device(3);
  struct Made {
    Made(std::int64_t rows, std::int64_t columns, Fp8 of)
        : output(rows, columns, dtype_of(of)),
          turned{columns, rows, dtype_of(of)},
          numbers(2 * sizeof(float)),
          type(of) {
      largest() = 0;
    }
    float& factor() { return numbers.as<float>()[0]; }
    float& largest() { return *found.as<float>(); }
    Tensor output, turned;
    Guarded numbers, found{sizeof(float)};
    Fp8 type;
  };
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 15}, {130, 7}, {65, 530}, {144, 288}}) {
    for (const bool finite : {true, false}) {
      INFO(rows << " x " << columns << ", finite: " << finite);
      const std::int64_t whole_rows = round_up(rows, kFp8Pad), whole_columns = round_up(columns, kFp8Pad);
      const std::int64_t shift = columns == 530 ? 3 : 0;  // rows that are not aligned
      Tensor gate = Tensor::random(rows, columns + shift, dtype, 1, 3);
      const Tensor up = Tensor::random(rows, columns + shift, dtype, 2),
                   d = Tensor::random(rows, columns, dtype, 3, 0.01);
      if (!finite) {
        Doubles values = gate.values();
        values.back() = std::numeric_limits<double>::quiet_NaN();
        from_doubles(values, dtype, gate.data());
      }
      GluBackward b;
      b.tokens = rows, b.width = columns;
      b.gate = gate.view().columns_from(shift), b.up = up.view().columns_from(shift), b.output_gradient = d.view();
      b.activation = activation;
      std::deque<Made> apart, at_once;
      std::deque<Tensor> stored;
      for (const Fp8 of : {type, type, Fp8::e4m3}) {
        apart.emplace_back(whole_rows, whole_columns, of), at_once.emplace_back(whole_rows, whole_columns, of);
        stored.emplace_back(rows, columns, dtype);
      }
      GluBackward numbers = b;
      numbers.gate_gradient = stored[0].view(), numbers.up_gradient = stored[1].view();
      numbers.output = stored[2].view();
      numbers.gate_largest = &apart[0].largest(), numbers.up_largest = &apart[1].largest();
      numbers.output_largest = &apart[2].largest();
      device.run(numbers);
      for (std::size_t i = 0; i < 3; ++i) {
        Made& to = apart[i];
        device.run(ToFp8{rows, columns, to.type, stored[i].view(), to.output.view(), to.turned.view(), &to.factor(),
                         &to.largest()});
      }
      const auto wanted = [](Made& to, bool lies) {
        return Fp8Output{to.type, lies ? to.output.view() : View(), to.turned.view(), &to.factor()};
      };
      b.gate_gradient8 = wanted(at_once[0], true), b.up_gradient8 = wanted(at_once[1], true);
      b.gate_largest = &at_once[0].largest(), b.up_largest = &at_once[1].largest();
      for (const bool again : {false, true}) {
        if (again) b.output8 = wanted(at_once[2], false), b.output_largest = &at_once[2].largest();
        device.run(b);
        for (std::size_t i = 0; i < (again ? 3 : 2); ++i) {
          INFO("matrix " << i);
          CHECK((i == 2 || at_once[i].output.same_bits(apart[i].output)));
          CHECK(at_once[i].turned.same_bits(apart[i].turned));
          CHECK((at_once[i].factor() == apart[i].factor() || (!finite && std::isnan(at_once[i].factor()))));
          CHECK((at_once[i].output.intact() && at_once[i].turned.intact() && at_once[i].numbers.intact()));
        }
      }
    }
  }
}
