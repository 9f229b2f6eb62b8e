#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr std::int64_t kSequence = 50, kWidth = 61;

Doubles mask_of(std::int64_t samples, const Dropout& dropout, int threads = 2) {
  Device device(threads);
  Tensor ones(samples * kSequence, kWidth, DType::fp32);
  from_doubles(Doubles(static_cast<std::size_t>(samples * kSequence * kWidth), 1.0), DType::fp32, ones.data());
  device.run(ApplyDropout{
      .rows = samples * kSequence, .columns = kWidth, .input = ones.view(), .output = ones.view(), .dropout = dropout});
  CHECK(ones.intact());
  return ones.values();
}

}  // namespace

TEST_CASE("dropout: the share, the scale, and one mask per (seed, step, sample, layer, site)", "[dropout]") {
  StepScalars scalars;
  scalars.seed = 1, scalars.step = 1, scalars.first_sample = 100;
  Dropout d;
  d.probability = 0.25f, d.sequence = kSequence, d.layer = 3, d.site = DropoutSite::mlp_residual;
  d.scalars = &scalars;
  const Doubles mask = mask_of(4, d);
  double zeros = 0;
  for (const double m : mask) {
    CHECK((m == 0 || m == Approx(1 / 0.75)));
    zeros += m == 0;
  }
  CHECK(zeros / static_cast<double>(mask.size()) == Approx(0.25).margin(0.02));
  CHECK(mask_of(4, d, 1) == mask);
  CHECK(mask_of(4, d, 3) == mask);

  Dropout later = d;  // samples 102 and 103 alone, because their masks do not depend on their micro-batch
  StepScalars later_scalars = scalars;
  later_scalars.first_sample = 102;
  later.scalars = &later_scalars;
  const Doubles tail(mask.begin() + 2 * kSequence * kWidth, mask.end());
  CHECK(mask_of(2, later) == tail);
  for (const std::int64_t first : {std::int64_t{13}, kSequence, kSequence + 7}) {  // a part of the micro-batch's rows
    Dropout part = d;
    part.first_row = first;
    const auto begin = mask.begin() + first * kWidth;
    CHECK(mask_of(2, part) == Doubles(begin, begin + 2 * kSequence * kWidth));
  }

  const auto differs = [&](auto change) {
    StepScalars other_scalars = scalars;
    Dropout other = d;
    other.scalars = &other_scalars;
    change(other, other_scalars);
    const Doubles other_mask = mask_of(4, other);
    double same = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) same += mask[i] == other_mask[i];
    return same / static_cast<double>(mask.size()) < 0.7;  // independent masks agree in 0.625
  };
  CHECK(differs([](Dropout&, StepScalars& s) { s.seed = 2; }));
  CHECK(differs([](Dropout&, StepScalars& s) { s.step = 2; }));
  CHECK(differs([](Dropout& o, StepScalars&) { o.layer = 4; }));
  CHECK(differs([](Dropout& o, StepScalars&) { o.site = DropoutSite::attention_residual; }));
  CHECK(differs([](Dropout&, StepScalars& s) { s.first_sample = 200; }));
}

TEST_CASE("dropout fused into a linear is the linear, then dropout, then the residual", "[dropout][linear]") {
  Device device;
  StepScalars scalars;
  scalars.seed = 4, scalars.step = 9, scalars.first_sample = 7;
  const std::int64_t tokens = 2 * kSequence, in = 20;
  const Tensor x = Tensor::random(tokens, in, DType::fp32, 1), w = Tensor::random(in, kWidth, DType::fp32, 2);
  const Tensor r = Tensor::random(tokens, kWidth, DType::fp32, 3);
  Tensor plain(tokens, kWidth, DType::fp32), fused(tokens, kWidth, DType::fp32);
  LinearForward a;
  a.tokens = tokens, a.in = in, a.out = kWidth, a.input = x.view(), a.weight = w.view(), a.output = plain.view();
  device.run(a);
  a.output = fused.view(), a.residual = r.view();
  a.dropout = {0.5f, kSequence, 1, DropoutSite::attention_residual, &scalars};
  device.run(a);
  device.run(ApplyDropout{
      .rows = tokens, .columns = kWidth, .input = plain.view(), .output = plain.view(), .dropout = a.dropout});
  device.run(Add{{plain.data(), DType::fp32}, {r.data(), DType::fp32}, {plain.data(), DType::fp32}, tokens * kWidth});
  CHECK(fused.same_bits(plain));
}

TEST_CASE("a linear whose input was dropped out adds its gradient with that mask", "[dropout][linear]") {
  Device device;
  StepScalars scalars;
  scalars.seed = 4, scalars.step = 9, scalars.first_sample = 7;
  const std::int64_t tokens = 2 * kSequence, out = 20;
  for (const DType dtype : kFloatTypes) {
    for (const bool adds : {false, true}) {
      INFO(name_of(dtype) << " adds " << adds);
      const Tensor dy = Tensor::random(tokens, out, dtype, 1), w = Tensor::random(kWidth, out, dtype, 2, 0.2);
      Tensor dx = Tensor::random(tokens, kWidth, dtype, 3);
      const Doubles there = dx.values();
      LinearBackward a;
      a.tokens = tokens, a.in = kWidth, a.out = out, a.weight = w.view(), a.output_gradient = dy.view();
      a.input_gradient = dx.view(), a.input_adds = adds;
      a.input_dropout = {0.5f, kSequence, 1, DropoutSite::attention_residual, &scalars};
      device.run(a);
      const Doubles g = dy.values(), weight = w.values(), masks = mask_of(2, a.input_dropout);
      Doubles expected(masks.size());
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t i = 0; i < kWidth; ++i) {
          double& sum = expected[static_cast<std::size_t>(t * kWidth + i)];
          for (std::int64_t o = 0; o < out; ++o) sum += at(g, out, t, o) * at(weight, out, i, o);
          sum = sum * at(masks, kWidth, t, i) + (adds ? at(there, kWidth, t, i) : 0);
        }
      }
      CHECK(relative_error(dx.values(), expected) < tolerance(dtype));
      CHECK(dx.intact());
    }
  }
}
