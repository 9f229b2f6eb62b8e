#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr float kEpsilon = 1e-5f;

struct Statistics {
  double mean, rstd;
};

Statistics statistics(const Doubles& x, std::int64_t width, std::int64_t row, bool subtract_mean) {
  double mean = 0, square = 0;
  if (subtract_mean) {
    for (std::int64_t i = 0; i < width; ++i) mean += at(x, width, row, i);
    mean /= static_cast<double>(width);
  }
  for (std::int64_t i = 0; i < width; ++i) square += (at(x, width, row, i) - mean) * (at(x, width, row, i) - mean);
  return {mean, 1 / std::sqrt(square / static_cast<double>(width) + static_cast<double>(kEpsilon))};
}

/// Computes sum(dy * norm(x)) as a function of x, gain, bias: the function whose gradient backward computes.
double objective(const Doubles& x, const Doubles& gain, const Doubles& bias, const Doubles& dy, std::int64_t tokens,
                 std::int64_t width, bool subtract_mean) {
  double sum = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Statistics s = statistics(x, width, t, subtract_mean);
    for (std::int64_t i = 0; i < width; ++i) {
      const double y = (at(x, width, t, i) - s.mean) * s.rstd * gain[static_cast<std::size_t>(i)] +
                       (bias.empty() ? 0 : bias[static_cast<std::size_t>(i)]);
      sum += at(dy, width, t, i) * y;
    }
  }
  return sum;
}

/// Computes the gradient of f by central differences.
template <class F>
Doubles differences(Doubles at, F f) {
  Doubles out(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double kept = at[i], h = 1e-5;
    at[i] = kept + h;
    const double up = f(at);
    at[i] = kept - h;
    out[i] = (up - f(at)) / (2 * h);
    at[i] = kept;
  }
  return out;
}

/// Backward by its formula in double. With h = (x - mean) rstd, w = gain dy: dx = rstd (w - mean(w) - h mean(w h)).
struct FormulaBackward {
  Doubles means, rstds, dx, dgain, dbias;

  FormulaBackward(const Doubles& x, const Doubles& gain, const Doubles& dy, std::int64_t width, bool subtract_mean)
      : dx(x.size()), dgain(gain.size()), dbias(gain.size()) {
    for (std::int64_t t = 0; t < static_cast<std::int64_t>(x.size()) / width; ++t) {
      const Statistics s = statistics(x, width, t, subtract_mean);
      means.push_back(s.mean), rstds.push_back(s.rstd);
      double mean_w = 0, mean_wh = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double h = (at(x, width, t, i) - s.mean) * s.rstd, up = at(dy, width, t, i);
        const double w = up * gain[static_cast<std::size_t>(i)];
        mean_w += subtract_mean ? w / static_cast<double>(width) : 0, mean_wh += w * h / static_cast<double>(width);
        dgain[static_cast<std::size_t>(i)] += up * h, dbias[static_cast<std::size_t>(i)] += up;
      }
      for (std::int64_t i = 0; i < width; ++i) {
        const double h = (at(x, width, t, i) - s.mean) * s.rstd;
        dx[static_cast<std::size_t>(t * width + i)] =
            s.rstd * (at(dy, width, t, i) * gain[static_cast<std::size_t>(i)] - mean_w - h * mean_wh);
      }
    }
  }
};

/// Checks forward and backward, which recomputes forward's output and may accumulate.
void check_by_formula(Device& device, std::int64_t tokens, std::int64_t width, DType dtype, bool subtract_mean,
                      bool adds) {
  INFO(name_of(dtype) << " " << tokens << "x" << width << " mean " << subtract_mean << " adds " << adds);
  const Tensor x = Tensor::random(tokens, width, dtype, 1, 2.0), gain = Tensor::random(1, width, dtype, 2);
  const Tensor bias = Tensor::random(1, width, dtype, 3), dy = Tensor::random(tokens, width, dtype, 4);
  constexpr float kOffset = 1.0f;
  Doubles gains = gain.values();
  for (double& g : gains) g += static_cast<double>(kOffset);
  FormulaBackward expected(x.values(), gains, dy.values(), width, subtract_mean);
  Tensor y(tokens, width, dtype), mean(1, tokens, DType::fp32), rstd(1, tokens, DType::fp32);
  NormForward f;
  f.tokens = tokens, f.width = width, f.epsilon = kEpsilon, f.subtract_mean = subtract_mean;
  f.input = x.view(), f.gain = gain.view(), f.gain_offset = kOffset, f.output = y.view(),
  f.reciprocal_deviation = rstd.floats();
  if (subtract_mean) f.bias = bias.view(), f.mean = mean.floats();
  device.run(f);
  CHECK(relative_error(rstd.values(), expected.rstds) < tolerance(DType::fp32));

  Tensor dx = adds ? Tensor::random(tokens, width, dtype, 5) : Tensor(tokens, width, dtype);
  if (adds) {
    const Doubles before = dx.values();
    for (std::size_t i = 0; i < before.size(); ++i) expected.dx[i] += before[i];
  }
  Tensor again(tokens, width, dtype), dgain(1, width, DType::fp32), dbias(1, width, DType::fp32);
  Guarded scratch(kernel_needs(tested_kind()).norm_backward(tokens, width));
  NormBackward b;
  b.tokens = tokens, b.width = width, b.subtract_mean = subtract_mean, b.input = f.input, b.gain = f.gain;
  b.gain_offset = f.gain_offset;
  b.bias = f.bias, b.mean = f.mean, b.reciprocal_deviation = f.reciprocal_deviation, b.output_gradient = dy.view();
  b.input_gradient = dx.view(), b.input_adds = adds, b.normalized = again.view(), b.scratch = scratch.data();
  b.gain_gradient = dgain.gradient(), b.bias_gradient = dbias.gradient();
  device.run(b);
  CHECK(relative_error(dx.values(), expected.dx) < tolerance(dtype));
  CHECK(relative_error(dgain.values(), expected.dgain) < tolerance(DType::fp32));
  CHECK(relative_error(dbias.values(), expected.dbias) < tolerance(DType::fp32));
  CHECK(again.same_bits(y));
  CHECK((y.intact() && rstd.intact() && dx.intact() && again.intact()));
  CHECK((dgain.intact() && dbias.intact() && scratch.intact()));
}

}  // namespace

TEST_CASE("layer norm and RMS norm forward, and applied from saved statistics", "[norm]") {
  Device device;
  std::mt19937 drawn(1);
  for (const bool subtract_mean : {true, false}) {
    for (const DType dtype : kFloatTypes) {
      for (const std::int64_t width : {1, 7, 16, 100, 500, 768, 1000, 1530, 1536, 1600, 4096, 4104, 4105, 8200}) {
        for (const std::int64_t tokens : {1, 33, 70}) {
          if (tokens * width > 60000) continue;  // time
          const float offset = drawn() % 2 == 0 ? 0.0f : 1.0f;
          INFO(name_of(dtype) << " " << tokens << "x" << width << " mean " << subtract_mean << " offset " << offset);
          const Tensor x = Tensor::random(tokens, width, dtype, 1, 3.0), gain = Tensor::random(1, width, dtype, 2);
          const Tensor bias = Tensor::random(1, width, dtype, 3);
          const Doubles xv = x.values(), g = gain.values(), b = bias.values();
          Doubles y(xv.size()), means, rstds;
          for (std::int64_t t = 0; t < tokens; ++t) {
            const Statistics s = statistics(xv, width, t, subtract_mean);
            means.push_back(s.mean), rstds.push_back(s.rstd);
            for (std::int64_t i = 0; i < width; ++i) {
              const auto k = static_cast<std::size_t>(t * width + i), c = static_cast<std::size_t>(i);
              y[k] = (xv[k] - s.mean) * s.rstd * (static_cast<double>(offset) + g[c]) + (subtract_mean ? b[c] : 0);
            }
          }
          Tensor out(tokens, width, dtype), mean(1, tokens, DType::fp32), rstd(1, tokens, DType::fp32);
          NormForward a;
          a.tokens = tokens, a.width = width, a.epsilon = kEpsilon, a.subtract_mean = subtract_mean;
          a.input = x.view(), a.gain = gain.view(), a.gain_offset = offset, a.output = out.view();
          if (subtract_mean) a.bias = bias.view(), a.mean = mean.floats();
          a.reciprocal_deviation = rstd.floats();
          device.run(a);
          CHECK(relative_error(out.values(), y) < tolerance(dtype));
          if (width > 1) CHECK(relative_error(rstd.values(), rstds) < tolerance(DType::fp32));
          for (std::size_t t = 0; t < means.size() && subtract_mean; ++t) {
            CHECK(std::abs(mean.values()[t] - means[t]) <
                  tolerance(DType::fp32) * 3.0);  // of the input's size: a mean may be near zero
          }
          CHECK((out.intact() && mean.intact() && rstd.intact()));

          // Added to a residual in place, it is rounded once: nearly always to the number next to the exact sum.
          Tensor sum = Tensor::random(tokens, width, dtype, 6), exact(tokens, width, dtype);
          Doubles sums = sum.values();
          for (std::size_t i = 0; i < sums.size(); ++i) {
            sums[i] += y[i] - (subtract_mean ? b[i % static_cast<std::size_t>(width)] : 0);
          }
          from_doubles(sums, dtype, exact.data());
          NormForward adding = a;
          adding.output = sum.view(), adding.residual = adding.output, adding.bias = {};
          device.run(adding);
          CHECK(relative_error(sum.values(), exact.values()) < tolerance(dtype) / (dtype == DType::fp32 ? 1 : 20));
          CHECK(sum.intact());

          // Backward recomputes the same bits, whatever the gradients are.
          const Tensor dy = Tensor::random(tokens, width, dtype, 4);
          Tensor again(tokens, width, dtype), dx(tokens, width, dtype), dg(1, width, DType::fp32);
          Guarded scratch(kernel_needs(tested_kind()).norm_backward(tokens, width));
          NormBackward back;
          back.tokens = tokens, back.width = width, back.subtract_mean = subtract_mean;
          back.input = a.input, back.gain = a.gain, back.bias = a.bias, back.mean = a.mean, back.gain_offset = offset;
          back.reciprocal_deviation = a.reciprocal_deviation, back.output_gradient = dy.view();
          back.input_gradient = dx.view(), back.gain_gradient = dg.gradient(), back.normalized = again.view();
          back.scratch = scratch.data();
          device.run(back);
          CHECK(again.same_bits(out));
          Tensor in_place = dy;
          back.input_gradient = in_place.view(), back.output_gradient = back.input_gradient;
          device.run(back);
          CHECK((in_place.same_bits(dx) && in_place.intact()));
          CHECK((again.intact() && dx.intact() && dg.intact() && scratch.intact()));
        }
      }
    }
  }
}

TEST_CASE("norm backward against central differences of the double-precision norm", "[norm]") {
  Device device;
  for (const bool subtract_mean : {true, false}) {
    for (const DType dtype : kFloatTypes) {
      for (const bool adds : {false, true}) {
        const std::int64_t width = 23, tokens = 37;
        INFO(name_of(dtype) << " adds " << adds << " mean " << subtract_mean);
        const Tensor x = Tensor::random(tokens, width, dtype, 1, 2.0), gain = Tensor::random(1, width, dtype, 2);
        const Tensor dy = Tensor::random(tokens, width, dtype, 4);
        const Doubles xv = x.values(), g = gain.values(), d = dy.values(), zero(static_cast<std::size_t>(width));
        Doubles dx =
            differences(xv, [&](const Doubles& v) { return objective(v, g, {}, d, tokens, width, subtract_mean); });
        Doubles dg =
            differences(g, [&](const Doubles& v) { return objective(xv, v, {}, d, tokens, width, subtract_mean); });
        Doubles db =
            differences(zero, [&](const Doubles& v) { return objective(xv, g, v, d, tokens, width, subtract_mean); });

        Tensor mean(1, tokens, DType::fp32), rstd(1, tokens, DType::fp32);
        NormForward f;
        f.tokens = tokens, f.width = width, f.epsilon = kEpsilon, f.subtract_mean = subtract_mean, f.input = x.view();
        f.gain = gain.view(), f.mean = mean.floats(), f.reciprocal_deviation = rstd.floats();
        device.run(f);

        Tensor dx_out = Tensor::random(tokens, width, dtype, 5), dg_out = Tensor::random(1, width, DType::fp32, 6);
        Tensor db_out = Tensor::random(1, width, DType::fp32, 7);
        const Doubles before[] = {dx_out.values(), dg_out.values(), db_out.values()};
        Doubles* expected[] = {&dx, &dg, &db};
        for (std::size_t k = 0; k < 3 && adds; ++k) {
          for (std::size_t i = 0; i < before[k].size(); ++i) (*expected[k])[i] += before[k][i];
        }
        Guarded scratch(kernel_needs(tested_kind()).norm_backward(tokens, width));
        NormBackward b;
        b.tokens = tokens, b.width = width, b.subtract_mean = subtract_mean, b.input = x.view(), b.gain = gain.view();
        b.mean = subtract_mean ? mean.floats() : nullptr, b.reciprocal_deviation = rstd.floats();
        b.output_gradient = dy.view(), b.input_gradient = dx_out.view(), b.input_adds = adds;
        b.gain_gradient = dg_out.gradient(adds), b.bias_gradient = db_out.gradient(adds), b.scratch = scratch.data();
        device.run(b);
        CHECK(relative_error(dx_out.values(), dx) < tolerance(dtype));
        CHECK(relative_error(dg_out.values(), dg) < tolerance(DType::fp32));
        CHECK(relative_error(db_out.values(), db) < tolerance(DType::fp32));
        CHECK((dx_out.intact() && dg_out.intact() && db_out.intact() && scratch.intact()));
      }
    }
  }
}

TEST_CASE("norms give the same bits on every instruction set and number of threads", "[norm]") {
  const std::int64_t tokens = 70, width = 333;
  const Tensor x = Tensor::random(tokens, width, DType::fp32, 1), gain = Tensor::random(1, width, DType::fp32, 2);
  const Tensor bias = Tensor::random(1, width, DType::fp32, 3), dy = Tensor::random(tokens, width, DType::fp32, 4);
  std::vector<Tensor> y, dx, dg;
  for (const InstructionSet set : kInstructionSets) {
    for (const int threads : {1, 3}) {
      if (!is_supported(set)) continue;
      INFO(name_of(set) << " " << threads);
      Device device(threads, set);
      y.emplace_back(tokens, width, DType::fp32), dx.emplace_back(tokens, width, DType::fp32),
          dg.emplace_back(1, width, DType::fp32);
      Tensor mean(1, tokens, DType::fp32), rstd(1, tokens, DType::fp32), db(1, width, DType::fp32);
      NormForward f;
      f.tokens = tokens, f.width = width, f.epsilon = kEpsilon, f.input = x.view(), f.gain = gain.view(),
      f.bias = bias.view(), f.gain_offset = 1;
      f.output = y.back().view(), f.mean = mean.floats(), f.reciprocal_deviation = rstd.floats();
      device.run(f);
      Guarded scratch(kernel_needs(tested_kind()).norm_backward(tokens, width));
      NormBackward b;
      b.tokens = tokens, b.width = width, b.input = x.view(), b.gain = gain.view(), b.mean = mean.floats();
      b.gain_offset = f.gain_offset;
      b.reciprocal_deviation = rstd.floats(), b.output_gradient = dy.view(), b.input_gradient = dx.back().view();
      b.gain_gradient = dg.back().gradient(), b.bias_gradient = db.gradient(), b.scratch = scratch.data();
      device.run(b);
      CHECK(y.back().same_bits(y.front()));
      CHECK(dx.back().same_bits(dx.front()));
      CHECK(dg.back().same_bits(dg.front()));
    }
  }
}

TEST_CASE("norm backward of wide rows against its formula in double", "[norm]") {
  for (const int threads : {1, 2, 3}) {
    Device device(threads);
    for (const std::int64_t width : {300, 1000, 2500}) {
      for (const bool subtract_mean : {true, false}) {
        check_by_formula(device, 41, width, DType::fp32, subtract_mean, false);
      }
    }
  }
}

TEST_CASE("norm backward adds to rows on and off 16 bytes", "[norm]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t width : {72, 76, 2056}) check_by_formula(device, 35, width, dtype, width != 76, true);
  }
}

TEST_CASE("norms of rows that a GPU's block cannot hold in backward", "[norm]") {
  Device device;
  check_by_formula(device, 19, 8201, DType::fp32, true, false);   // rows off 16 bytes, an odd tail, two groups of rows
  check_by_formula(device, 5, 8201, DType::bf16, false, true);    // the same, another type
  check_by_formula(device, 3, 9224, DType::bf16, true, true);     // rows on 16 bytes
  check_by_formula(device, 2, 16384, DType::fp16, false, false);  // the widest
}
