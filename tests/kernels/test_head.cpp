#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/tensors.hpp"
#include "sanitized.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

constexpr float kEpsilon = 1e-5f;

struct Problem {
  std::int64_t tokens, width, vocab;
  DType dtype = DType::fp32, gradient = DType::fp32;
  DType logits = DType::fp32;
  std::int64_t table_rows = vocab;
  float gain_offset = 0;
};

/// Makes elements from `first` on zero.
void clear_from(Tensor& matrix, std::int64_t first) {
  Doubles values = matrix.values();
  std::fill(values.begin() + first, values.end(), 0.0);
  from_doubles(values, matrix.view().dtype, matrix.data());
}

struct Inputs {
  explicit Inputs(const Problem& p)
      : x(Tensor::random(p.tokens, p.width, p.dtype, 1, 2.0)),
        gain(Tensor::random(1, p.width, p.dtype, 2)),
        bias(Tensor::random(1, p.width, p.dtype, 3)),
        table(Tensor::random(p.table_rows, p.width, p.dtype, 4, 0.5)) {
    clear_from(table, p.vocab * p.width);
    for (std::int64_t t = 0; t < p.tokens; ++t) targets.push_back(static_cast<std::int32_t>((t * 37 + 5) % p.vocab));
    scalars.gradient_scale = 1.0f / static_cast<float>(p.tokens);
  }
  Tensor x, gain, bias, table;
  std::vector<std::int32_t> targets;
  StepScalars scalars;
};

/// Loss and gradients in double: norm, matmul, softmax, and back.
struct Reference {
  double loss = 0;
  Doubles token_losses, dx, dgain, dbias, dtable;

  Reference(const Problem& p, const Inputs& in)
      : token_losses(static_cast<std::size_t>(p.tokens)),
        dx(static_cast<std::size_t>(p.tokens * p.width)),
        dgain(static_cast<std::size_t>(p.width)),
        dbias(dgain),
        dtable(static_cast<std::size_t>(p.table_rows * p.width)) {
    const Doubles x = in.x.values(), b = in.bias.values(), w = in.table.values();
    Doubles g = in.gain.values();
    for (double& gain : g) gain += static_cast<double>(p.gain_offset);
    const auto width = static_cast<std::size_t>(p.width);
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      double mean = 0, variance = 0;
      for (std::int64_t i = 0; i < p.width; ++i) mean += at(x, p.width, t, i) / static_cast<double>(p.width);
      for (std::int64_t i = 0; i < p.width; ++i)
        variance += std::pow(at(x, p.width, t, i) - mean, 2) / static_cast<double>(p.width);
      const double rstd = 1 / std::sqrt(variance + static_cast<double>(kEpsilon));
      Doubles h(width), n(width), dn(width);
      for (std::size_t i = 0; i < width; ++i) {
        h[i] = (x[static_cast<std::size_t>(t) * width + i] - mean) * rstd;
        n[i] = h[i] * g[i] + b[i];
      }
      Doubles logits(static_cast<std::size_t>(p.vocab));
      double sum = 0;
      for (std::size_t v = 0; v < logits.size(); ++v) {
        for (std::size_t i = 0; i < width; ++i) logits[v] += n[i] * w[v * width + i];
        sum += std::exp(logits[v]);
      }
      if (in.targets[static_cast<std::size_t>(t)] == kUncounted) continue;
      const auto target = static_cast<std::size_t>(in.targets[static_cast<std::size_t>(t)]);
      loss += token_losses[static_cast<std::size_t>(t)] = std::log(sum) - logits[target];
      for (std::size_t v = 0; v < logits.size(); ++v) {
        const double d =
            (std::exp(logits[v]) / sum - (v == target ? 1 : 0)) * static_cast<double>(in.scalars.gradient_scale);
        for (std::size_t i = 0; i < width; ++i) {
          dn[i] += d * w[v * width + i];
          dtable[v * width + i] += d * n[i];
        }
      }
      double a = 0, c = 0;
      for (std::size_t i = 0; i < width; ++i) {
        dgain[i] += dn[i] * h[i], dbias[i] += dn[i];
        a += dn[i] * g[i] / static_cast<double>(p.width), c += dn[i] * g[i] * h[i] / static_cast<double>(p.width);
      }
      for (std::size_t i = 0; i < width; ++i)
        dx[static_cast<std::size_t>(t) * width + i] = rstd * (dn[i] * g[i] - a - h[i] * c);
    }
  }
};

struct Result {
  explicit Result(const Problem& p)
      : token_losses(1, p.tokens, DType::fp32),
        dx(p.tokens, p.width, p.dtype),
        dgain(1, p.width, p.gradient),
        dbias(1, p.width, p.gradient),
        dtable(Tensor::random(p.table_rows, p.width, p.gradient, 9, 0.01)) {
    clear_from(dtable, p.vocab * p.width);
  }
  double loss = NAN, evaluation_loss = NAN;
  std::vector<double> sample_losses;
  Tensor token_losses, dx, dgain, dbias, dtable;
};

Result run_head(Device& device, const Problem& p, const Inputs& in, bool adds = false, Pieces pieces = Pieces::usual) {
  Result r(p);
  HeadLoss a;
  a.tokens = p.tokens, a.width = p.width, a.vocab = p.vocab, a.epsilon = kEpsilon;
  a.table_rows = p.table_rows, a.logits = p.logits, a.gain_offset = p.gain_offset;
  a.input = in.x.view(), a.gain = in.gain.view(), a.bias = in.bias.view(), a.table = in.table.view();
  a.targets = in.targets.data(), a.loss = &r.evaluation_loss, a.scalars = &in.scalars;
  HeadShape shape{p.tokens, p.width, p.vocab, p.table_rows, p.dtype, p.logits, p.gradient, false};
  Guarded forward_scratch(head_scratch_of_tested(shape, pieces));
  a.scratch = forward_scratch.data(), a.token_losses = r.token_losses.floats();
  device.run(a);
  a.token_losses = nullptr;
  r.sample_losses.assign(p.tokens % 10 == 0 ? 5 : 1, NAN);
  a.sample_losses = r.sample_losses.data(), a.samples = std::ssize(r.sample_losses);
  shape.training = true;
  Guarded scratch(head_scratch_of_tested(shape, pieces));
  a.scratch = scratch.data(), a.loss = &r.loss;
  a.input_gradient = r.dx.view(), a.gain_gradient = r.dgain.gradient(), a.bias_gradient = r.dbias.gradient();
  a.table_gradient = r.dtable.gradient(adds);
  Guarded largest(sizeof(float));
  *largest.as<float>() = 0, a.gradient_largest = largest.as<float>();
  device.run(a);
  const Doubles dx = r.dx.values();
  const double most = std::transform_reduce(
      dx.begin(), dx.end(), 0.0, [](double x, double y) { return std::max(x, y); },
      [](double x) { return std::isnan(x) ? HUGE_VAL : std::abs(x); });
  CHECK((static_cast<double>(*largest.as<float>()) == most || most == HUGE_VAL));
  CHECK((forward_scratch.intact() && r.token_losses.intact() && scratch.intact() && r.dx.intact() && r.dgain.intact() &&
         r.dbias.intact() && r.dtable.intact()));
  return r;
}

void check_against_reference(Device& device, const Problem& p, bool adds, Pieces pieces = Pieces::usual,
                             std::int64_t counts_every = 1) {
  INFO(p.tokens << "x" << p.width << "x" << p.vocab << " of " << p.table_rows << " rows, " << name_of(p.dtype)
                << " logits " << name_of(p.logits) << " gradients " << name_of(p.gradient) << " adds " << adds);
  Inputs in(p);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    if (t % counts_every != 0) in.targets[static_cast<std::size_t>(t)] = kUncounted;
  }
  Reference reference(p, in);
  if (adds) {
    const Doubles before = Result(p).dtable.values();
    for (std::size_t i = 0; i < before.size(); ++i) reference.dtable[i] += before[i];
  }
  const Result r = run_head(device, p, in, adds, pieces);
  CHECK(std::abs(r.loss - reference.loss) <= tolerance(p.dtype) * reference.loss);
  CHECK(r.loss == r.evaluation_loss);
  CHECK(relative_error(r.token_losses.values(), reference.token_losses) < tolerance(p.dtype));
  Doubles sample_losses;
  for (auto at = reference.token_losses.begin(); at != reference.token_losses.end();) {
    const auto begin = at;
    at += p.tokens / std::ssize(r.sample_losses);
    sample_losses.push_back(std::reduce(begin, at));
  }
  CHECK(relative_error(r.sample_losses, sample_losses) < tolerance(p.dtype));
  // A sum over the vocabulary, whose terms oneDNN adds one after the other on Arm: their errors walk at random.
  const double of_sum = std::sqrt(std::max(1.0, static_cast<double>(p.vocab) / 20000.0));
  CHECK(relative_error(r.dx.values(), reference.dx) < 2 * of_sum * tolerance(p.dtype));
  const double of_gradient = std::max(tolerance(p.gradient), p.dtype == DType::fp32 ? 0.0 : tolerance(p.dtype));
  CHECK(relative_error(r.dgain.values(), reference.dgain) < 2 * of_gradient);
  CHECK(relative_error(r.dbias.values(), reference.dbias) < 2 * of_gradient);
  CHECK(relative_error(r.dtable.values(), reference.dtable) < 2 * of_gradient);
}

}  // namespace

TEST_CASE("head: loss and gradients in one chunk", "[head]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const DType gradient : {DType::fp32, DType::bf16}) {
      for (const bool adds : {false, true}) {
        check_against_reference(device, {1, 8, 3, dtype, gradient}, adds);
        check_against_reference(device, {70, 33, 401, dtype, gradient}, adds);
      }
      check_against_reference(device, {70, 33, 401, dtype, gradient, DType::fp32, 401, 1.0f}, false);
    }
  }
  check_against_reference(device, {300, 20, 50}, false);
}

TEST_CASE("head: logits in fp32 or in the input's type, of vocabularies that a GPU's block keeps or not", "[head]") {
  Device device;
  for (const std::int64_t vocab : {37003, 60011, 90001}) {  // 60011 in fp32 and 90001 in 16 bits are too large
    for (const DType logits : {DType::fp32, DType::bf16}) {
      check_against_reference(device, {2, 4, vocab, DType::bf16, DType::fp32, logits}, false);
    }
    check_against_reference(device, {2, 4, vocab}, false);
  }
  // Rows of 48 KB, from which on a GPU's kernel asks for shared memory.
  check_against_reference(device, {2, 4, 24570, DType::bf16, DType::fp32, DType::bf16}, false);
  check_against_reference(device, {2, 4, 12288}, false);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    check_against_reference(device, {70, 33, 401, dtype, DType::fp32, dtype}, false);
    check_against_reference(device, {70, 33, 401, dtype, dtype, dtype}, true, Pieces::usual, 3);
  }
}

TEST_CASE("head: rows of zeros behind the vocabulary are seen by nothing", "[head]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t rows : {401, 402, 448, 513}) {
      check_against_reference(device, {70, 33, 401, dtype, DType::fp32, dtype, rows}, false);
      check_against_reference(device, {70, 33, 401, dtype, DType::bf16, DType::fp32, rows}, true, Pieces::usual, 2);
    }
    // All logits are far below the zeros' 0: with those in the sum, the loss would be some 40.
    const Problem p{5, 8, 3, dtype, DType::fp32, dtype, 64};
    Inputs in(p);
    clear_from(in.gain, 0);
    from_doubles(Doubles(8, 1.0), dtype, in.bias.data());
    from_doubles(Doubles(3 * 8, -5.0), dtype, in.table.data());
    const Result r = run_head(device, p, in);
    CHECK(std::abs(r.loss - 5 * std::log(3.0)) < 5 * tolerance(dtype));
    const Doubles gradient = r.dtable.values();
    double sum = 0;  // of softmax - onehot over a row: 0, unless the zeros have a share
    for (std::size_t i = 0; i < 3 * 8; ++i) sum += gradient[i];
    CHECK(std::abs(sum) < 24 * tolerance(dtype));
    for (std::size_t i = 3 * 8; i < gradient.size(); ++i) REQUIRE(gradient[i] == 0);
  }
}

TEST_CASE("head: several chunks of tokens, with and without an accumulator", "[head]") {
  // 2^24 logits per chunk and at least 16 tokens: a vocabulary of 600,000 has chunks of 27 and fewer. A GPU's are
  // larger; for tests they can be made small.
  Device device(2, best_instruction_set(), Pieces::small);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const DType gradient : {DType::fp32, DType::bf16}) {
      for (const bool adds : {false, true}) {
        if (tested_kind() == DeviceKind::cpu) {
          if (kSanitized && (gradient == DType::fp32 || !adds)) continue;  // takes 20 s there
          if (dtype == DType::fp32) check_against_reference(device, {60, 3, 600000, dtype, gradient}, adds);
        } else {
          check_against_reference(device, {290, 24, 203, dtype, gradient}, adds, Pieces::small);
        }
      }
    }
  }
}

TEST_CASE("head gives the same bits on any number of threads", "[head]") {
  const Problem p{130, 40, 7000};
  const Inputs in(p);
  std::vector<Result> results;
  for (const int threads : {1, 2, 3}) {
    Device device(threads);
    results.push_back(run_head(device, p, in));
    CHECK(results.back().loss == results.front().loss);
    CHECK(results.back().dx.same_bits(results.front().dx));
    CHECK(results.back().dgain.same_bits(results.front().dgain));
    CHECK(results.back().dtable.same_bits(results.front().dtable));
  }
}

TEST_CASE("head: NaN in the input is NaN in the loss; a target outside the vocabulary is refused", "[head]") {
  Device device;
  const Problem p{20, 16, 100};
  Inputs in(p);
  in.x.floats()[3] = NAN;
  CHECK(std::isnan(run_head(device, p, in).loss));
  in = Inputs(p);
  in.targets[4] = 100;
  if (tested_kind() == DeviceKind::cpu) {
    CHECK_THROWS_AS(run_head(device, p, in), InternalError);
  } else {
    CHECK(std::isnan(run_head(device, p, in).loss));  // a GPU's kernel cannot throw
  }
}

TEST_CASE("head: targets that do not count have neither loss nor gradient", "[head]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    check_against_reference(device, {70, 33, 401, dtype}, false, Pieces::usual, 3);
    check_against_reference(device, {300, 16, 130, dtype}, true, Pieces::usual, 2);
  }
  const Problem p{70, 33, 401};
  Inputs in(p);
  std::ranges::fill(in.targets, kUncounted);
  const Result none = run_head(device, p, in);
  CHECK(none.loss == 0);
  for (const Tensor* zero : {&none.dx, &none.dgain, &none.dbias, &none.dtable}) {
    for (const double v : zero->values()) REQUIRE(v == 0);
  }
  for (const double v : none.token_losses.values()) REQUIRE(v == 0);
  // The content of a row that does not count is hidden.
  in.x.floats()[5] = NAN;
  CHECK(run_head(device, p, in).loss == 0);
  in = Inputs(p);
  in.targets[3] = -2;
  if (tested_kind() == DeviceKind::cpu) {
    CHECK_THROWS_AS(run_head(device, p, in), InternalError);
  } else {
    CHECK(std::isnan(run_head(device, p, in).loss));  // a GPU's kernel cannot throw
  }
}
