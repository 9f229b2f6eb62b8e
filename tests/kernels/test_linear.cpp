#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"
#include "sanitized.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

double gelu_new(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_new_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

struct Shape {
  std::int64_t tokens, in, out;
};
constexpr Shape kShapes[] = {{1, 1, 1},       {1, 64, 48},    {3, 5, 7},       {65, 33, 129},
                             {130, 257, 391}, {257, 96, 400}, {300, 1100, 40}, {96, 64, 192}};

/// Computes y = x W + b in double.
Doubles matmul(const Doubles& x, const Doubles& w, const Doubles& b, const Shape& s, WeightLayout layout) {
  Doubles y(static_cast<std::size_t>(s.tokens * s.out));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      double sum = b.empty() ? 0 : b[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < s.in; ++i) {
        sum += at(x, s.in, t, i) * (layout == WeightLayout::in_out ? at(w, s.out, i, o) : at(w, s.in, o, i));
      }
      y[static_cast<std::size_t>(t * s.out + o)] = sum;
    }
  }
  return y;
}

Tensor random_weight(const Shape& s, WeightLayout layout, DType dtype) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.in));
  return layout == WeightLayout::in_out ? Tensor::random(s.in, s.out, dtype, 2, scale)
                                        : Tensor::random(s.out, s.in, dtype, 2, scale);
}

}  // namespace

TEST_CASE("linear forward: bias, GELU and residual in any layout and type", "[linear]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
      for (const Shape& s : kShapes) {
        INFO(name_of(dtype) << " layout " << static_cast<int>(layout) << " " << s.tokens << "x" << s.in << "x"
                            << s.out);
        const Tensor x = Tensor::random(s.tokens, s.in, dtype, 1), w = random_weight(s, layout, dtype);
        const Tensor b = Tensor::random(1, s.out, dtype, 3), r = Tensor::random(s.tokens, s.out, dtype, 4);
        const Doubles y = matmul(x.values(), w.values(), b.values(), s, layout);
        LinearForward a;
        a.tokens = s.tokens, a.in = s.in, a.out = s.out, a.layout = layout;
        a.input = x.view(), a.weight = w.view(), a.bias = b.view();

        Tensor plain(s.tokens, s.out, dtype), activated(s.tokens, s.out, dtype);
        a.output = plain.view(), a.activated = activated.view();
        device.run(a);
        CHECK(relative_error(plain.values(), y) < tolerance(dtype));
        Doubles expected = plain.values();  // GELU of the stored values
        for (double& e : expected) e = gelu_new(e);
        CHECK(relative_error(activated.values(), expected) < tolerance(dtype));

        Tensor again(s.tokens, s.out, dtype);
        device.run(GeluForward{s.tokens, s.out, plain.view(), again.view()});
        CHECK(again.same_bits(activated));

        Tensor summed = r;  // the output may be the residual itself
        a.activated = {}, a.residual = summed.view(), a.output = summed.view();
        device.run(a);
        expected = r.values();
        for (std::size_t i = 0; i < y.size(); ++i) expected[i] += y[i];
        CHECK(relative_error(summed.values(), expected) < tolerance(dtype));
        CHECK((plain.intact() && activated.intact() && again.intact() && summed.intact()));
      }
    }
  }
}

TEST_CASE("linear forward with GELU where nothing asks for determinism: of the stored sum or of the exact one",
          "[linear]") {
  Device device(2, best_instruction_set(), Pieces::loose);
  for (const DType dtype : kFloatTypes) {
    for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
      for (const Shape& s : kShapes) {
        INFO(name_of(dtype) << " layout " << static_cast<int>(layout) << " " << s.tokens << "x" << s.in << "x"
                            << s.out);
        const Tensor x = Tensor::random(s.tokens, s.in, dtype, 1), w = random_weight(s, layout, dtype);
        const Tensor b = Tensor::random(1, s.out, dtype, 3);
        Doubles y = matmul(x.values(), w.values(), b.values(), s, layout);
        Tensor before(s.tokens, s.out, dtype), activated(s.tokens, s.out, dtype);
        LinearForward a;
        a.tokens = s.tokens, a.in = s.in, a.out = s.out, a.layout = layout;
        a.input = x.view(), a.weight = w.view(), a.bias = b.view();
        a.output = before.view(), a.activated = activated.view();
        device.run(a);
        CHECK(relative_error(before.values(), y) < tolerance(dtype));
        for (double& e : y) e = gelu_new(e);
        CHECK(relative_error(activated.values(), y) < tolerance(dtype));
        CHECK((before.intact() && activated.intact()));
      }
    }
  }
}

TEST_CASE("linear backward: the three gradients, stored or added, through a GELU", "[linear]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const DType gradient_type : {DType::fp32, DType::bf16}) {
      for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
        for (const bool adds : {false, true}) {
          if (kSanitized && adds == (gradient_type == DType::fp32)) continue;
          for (const Shape& s : kShapes) {
            INFO(name_of(dtype) << " gradients " << name_of(gradient_type) << " layout " << static_cast<int>(layout)
                                << " adds " << adds << " " << s.tokens << "x" << s.in << "x" << s.out);
            const bool in_out = layout == WeightLayout::in_out;
            const Tensor x = Tensor::random(s.tokens, s.in, dtype, 1), w = random_weight(s, layout, dtype);
            const Tensor u = Tensor::random(s.tokens, s.in, dtype, 5), dy = Tensor::random(s.tokens, s.out, dtype, 6);
            const Doubles xv = x.values(), dyv = dy.values(), uv = u.values();

            // d x is the matmul with the weight read in the other layout.
            const Shape back{s.tokens, s.out, s.in};
            Doubles dx = matmul(dyv, w.values(), {}, back, in_out ? WeightLayout::out_in : WeightLayout::in_out);
            for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= gelu_new_slope(uv[i]);
            Tensor dw = Tensor::random(in_out ? s.in : s.out, in_out ? s.out : s.in, gradient_type, 7);
            Tensor db = Tensor::random(1, s.out, gradient_type, 8);
            Doubles dw_expected = adds ? dw.values() : Doubles(static_cast<std::size_t>(s.in * s.out));
            Doubles db_expected = adds ? db.values() : Doubles(static_cast<std::size_t>(s.out));
            for (std::int64_t t = 0; t < s.tokens; ++t) {
              for (std::int64_t o = 0; o < s.out; ++o) {
                const double g = at(dyv, s.out, t, o);
                db_expected[static_cast<std::size_t>(o)] += g;
                for (std::int64_t i = 0; i < s.in; ++i) {
                  dw_expected[static_cast<std::size_t>(in_out ? i * s.out + o : o * s.in + i)] +=
                      at(xv, s.in, t, i) * g;
                }
              }
            }

            Tensor dx_out(s.tokens, s.in, dtype);
            LinearBackward a;
            a.tokens = s.tokens, a.in = s.in, a.out = s.out, a.layout = layout;
            a.input = x.view(), a.weight = w.view(), a.output_gradient = dy.view();
            a.input_gradient = dx_out.view(), a.before_gelu = u.view();
            a.weight_gradient = dw.gradient(adds), a.bias_gradient = db.gradient(adds);
            device.run(a);
            CHECK(relative_error(dx_out.values(), dx) < tolerance(dtype));
            CHECK(relative_error(dw.values(), dw_expected) < tolerance(gradient_type));
            CHECK(relative_error(db.values(), db_expected) < tolerance(gradient_type));
            CHECK((dx_out.intact() && dw.intact() && db.intact()));

            // Without the GELU, added to the existing values.
            Tensor sum = Tensor::random(s.tokens, s.in, dtype, 9);
            Doubles sum_expected = sum.values();
            const Doubles plain =
                matmul(dyv, w.values(), {}, back, in_out ? WeightLayout::out_in : WeightLayout::in_out);
            for (std::size_t i = 0; i < plain.size(); ++i) sum_expected[i] += plain[i];
            a.input_gradient = sum.view(), a.input_adds = true, a.before_gelu = {};
            a.weight_gradient = {}, a.bias_gradient = {};
            device.run(a);
            CHECK(relative_error(sum.values(), sum_expected) < tolerance(dtype));
            CHECK(sum.intact());
          }
        }
      }
    }
  }
}

TEST_CASE("linear backward: the bias's gradient alone, stored or added", "[linear]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const DType gradient_type : {DType::fp32, DType::bf16}) {
      for (const bool adds : {false, true}) {
        for (const Shape& s : {Shape{1, 8, 1}, Shape{3, 8, 7}, Shape{257, 8, 400}, Shape{1025, 8, 136}}) {
          INFO(name_of(dtype) << " gradients " << name_of(gradient_type) << " adds " << adds << " " << s.tokens << "x"
                              << s.out);
          const Tensor dy = Tensor::random(s.tokens, s.out, dtype, 6);
          Tensor db = Tensor::random(1, s.out, gradient_type, 8);
          Doubles expected = adds ? db.values() : Doubles(static_cast<std::size_t>(s.out));
          const Doubles dyv = dy.values();
          for (std::size_t i = 0; i < dyv.size(); ++i) expected[i % static_cast<std::size_t>(s.out)] += dyv[i];
          LinearBackward a;
          a.tokens = s.tokens, a.in = s.in, a.out = s.out, a.output_gradient = dy.view();
          a.bias_gradient = db.gradient(adds);
          device.run(a);
          CHECK(relative_error(db.values(), expected) < tolerance(gradient_type));
          CHECK(db.intact());
        }
      }
    }
  }
}

TEST_CASE("linear: what was chosen for one place of bias and GELU's input serves others", "[linear]") {
  // 16 bytes are a fused epilogue's guaranteed alignment, however well the first call's operands happen to lie.
  Device device;
  const Shape s{32, 24, 48};
  const DType dtype = DType::bf16;
  const Tensor x = Tensor::random(s.tokens, s.in, dtype, 1), w = random_weight(s, WeightLayout::in_out, dtype);
  const Tensor biases = Tensor::random(1, s.out + 8, dtype, 3), dy = Tensor::random(s.tokens, s.out, dtype, 4);
  const Tensor before = Tensor::random(s.tokens + 1, s.in, dtype, 5);
  const Doubles plain = matmul(x.values(), w.values(), {}, s, WeightLayout::in_out);
  const Shape back{s.tokens, s.out, s.in};
  const Doubles of_input = matmul(dy.values(), w.values(), {}, back, WeightLayout::out_in);
  for (const std::int64_t place : {0, 1}) {
    INFO(place);
    Tensor y(s.tokens, s.out, dtype), dx(s.tokens, s.in, dtype);
    LinearForward f;
    f.tokens = s.tokens, f.in = s.in, f.out = s.out, f.input = x.view(), f.weight = w.view(), f.output = y.view();
    f.bias = biases.view().columns_from(8 * place);
    device.run(f);
    Doubles expected = plain;
    const Doubles b = biases.values();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += b[i % static_cast<std::size_t>(s.out) + static_cast<std::size_t>(8 * place)];
    }
    CHECK(relative_error(y.values(), expected) < tolerance(dtype));

    LinearBackward g;
    g.tokens = s.tokens, g.in = s.in, g.out = s.out, g.weight = w.view(), g.output_gradient = dy.view();
    g.before_gelu = before.view().rows_from(place), g.input_gradient = dx.view();
    device.run(g);
    expected = of_input;
    const Doubles u = before.values();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] *= gelu_new_slope(u[i + static_cast<std::size_t>(place * s.in)]);
    }
    CHECK(relative_error(dx.values(), expected) < tolerance(dtype));
    CHECK((y.intact() && dx.intact()));
  }
}

TEST_CASE("GELU is right far from zero and passes NaN on", "[linear]") {
  struct Precision {
    DType dtype;
    double relative, absolute;  // relative to a value of 1e-28 the exponent's rounding shows; fp16 ends at 6e-8
  };
  for (const InstructionSet set : kInstructionSets) {
    if (!is_supported(set)) continue;
    Device device(1, set);
    for (const auto& [dtype, relative, absolute] :
         {Precision{DType::fp32, 3e-5, 1e-30}, Precision{DType::bf16, 4e-3, 1e-30},
          Precision{DType::fp16, 6e-4, 6e-8}}) {
      INFO(name_of(set) << " " << name_of(dtype));
      Doubles points;
      for (double x = -12; x <= 12; x += 0.01) points.push_back(x);
      points.insert(points.end(), {-60000, -300, 300, 60000});
      const auto n = static_cast<std::int64_t>(points.size());
      Tensor in(1, n, dtype), out(1, n, dtype);
      from_doubles(points, dtype, in.data());
      device.run(GeluForward{1, n, in.view(), out.view()});
      const Doubles got = out.values(), stored = in.values();
      for (std::size_t i = 0; i < got.size(); ++i) {
        // x / (1 + exp(-2u)) in double: the tanh form loses all digits below -6.
        const double x = stored[i], u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        const double expected = x / (1 + std::exp(-2 * u));
        if (!(std::abs(got[i] - expected) <= absolute + relative * std::abs(expected))) {
          FAIL_CHECK("gelu(" << x << ") is " << got[i] << ", not " << expected);
        }
      }
      points[5] = NAN, points[6] = HUGE_VAL;
      from_doubles(points, dtype, in.data());
      device.run(GeluForward{1, n, in.view(), out.view()});
      CHECK(std::isnan(out.values()[5]));
      CHECK(out.values()[6] == HUGE_VAL);
    }
  }
}

TEST_CASE("linear gives the same bits on any number of threads", "[linear]") {
  const Shape s{200, 300, 500};
  const Tensor x = Tensor::random(s.tokens, s.in, DType::fp32, 1),
               w = random_weight(s, WeightLayout::in_out, DType::fp32);
  const Tensor dy = Tensor::random(s.tokens, s.out, DType::fp32, 2);
  std::vector<Tensor> y, dx, dw, db;
  for (const int threads : {1, 2, 3}) {
    Device device(threads);
    y.emplace_back(s.tokens, s.out, DType::fp32), dx.emplace_back(s.tokens, s.in, DType::fp32);
    dw.emplace_back(s.in, s.out, DType::fp32), db.emplace_back(1, s.out, DType::fp32);
    LinearForward f;
    f.tokens = s.tokens, f.in = s.in, f.out = s.out, f.input = x.view(), f.weight = w.view(),
    f.output = y.back().view();
    device.run(f);
    LinearBackward b;
    b.tokens = s.tokens, b.in = s.in, b.out = s.out, b.input = x.view(), b.weight = w.view(),
    b.output_gradient = dy.view();
    b.input_gradient = dx.back().view(), b.weight_gradient = dw.back().gradient(),
    b.bias_gradient = db.back().gradient();
    device.run(b);
    CHECK(y.back().same_bits(y.front()));
    CHECK(dx.back().same_bits(dx.front()));
    CHECK(dw.back().same_bits(dw.front()));
    CHECK(db.back().same_bits(db.front()));
  }
}

TEST_CASE("NaN in an operand reaches the matmuls that use it and no other", "[linear]") {
  Device device;
  const Shape s{40, 30, 50};
  Tensor x = Tensor::random(s.tokens, s.in, DType::fp32, 1);
  const Tensor w = random_weight(s, WeightLayout::in_out, DType::fp32);
  x.floats()[7 * s.in + 3] = NAN;
  Tensor y(s.tokens, s.out, DType::fp32);
  LinearForward f;
  f.tokens = s.tokens, f.in = s.in, f.out = s.out, f.input = x.view(), f.weight = w.view(), f.output = y.view();
  device.run(f);
  for (std::int64_t i = 0; i < s.tokens * s.out; ++i) CHECK(std::isnan(y.floats()[i]) == (i / s.out == 7));
}
