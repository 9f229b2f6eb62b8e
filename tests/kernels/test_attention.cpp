#include <catch2/catch.hpp>

#include "kernels/attention_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Returns whether what is tested must compute it.
bool is_computed(const Problem& p) {
  return possible_attention(tested_attention(), p.shape, p.dtype) == tested_attention();
}

}  // namespace

TEST_CASE("attention forward and backward: tiles, odd lengths, shared key/value heads", "[attention]") {
  const AttentionShape shapes[] = {{1, 1, 1, 1, 8},    {2, 5, 1, 1, 3},     {1, 64, 2, 2, 64},  {2, 65, 3, 3, 16},
                                   {1, 130, 2, 1, 5},  {2, 100, 6, 2, 8},   {1, 200, 4, 4, 32}, {3, 63, 4, 1, 256},
                                   {1, 150, 4, 2, 64}, {1, 140, 2, 1, 128}, {2, 33, 1, 1, 72},  {1, 40, 2, 2, 136}};
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const AttentionShape& shape : shapes) {
      INFO(name_of(dtype) << " " << shape.batch << " x " << shape.sequence << ", heads " << shape.heads << "/"
                          << shape.kv_heads << " of " << shape.head_width);
      const Problem p{shape, dtype};
      const Tensor qkv = Tensor::random(p.tokens(), p.width(), dtype, 1),
                   upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
      if (!is_computed(p)) {
        CHECK_THROWS_AS(run_attention(device, p, qkv, upstream), UsageError);
        continue;
      }
      const Reference reference(p, qkv.values(), upstream.values());
      const Result r = run_attention(device, p, qkv, upstream);
      check_result(r, reference, dtype);
    }
  }
}

TEST_CASE("attention forward and backward: gradients in longer rows, after one in short ones", "[attention]") {
  Device device;  // the same one: state kept of the first call must not serve the second
  const Problem p{{2, 21, 2, 2, 16}, DType::bf16};
  const Tensor qkv = Tensor::random(p.tokens(), p.width(), p.dtype, 1),
               longer = Tensor::random(p.tokens(), p.out_width() + 8, p.dtype, 2);
  Tensor upstream(p.tokens(), p.out_width(), p.dtype);
  const auto row_of = [&](std::int64_t columns) { return static_cast<std::size_t>(columns * size_of(p.dtype)); };
  for (std::int64_t row = 0; row < p.tokens(); ++row) {
    std::memcpy(static_cast<std::byte*>(upstream.data()) + row_of(row * p.out_width()),
                static_cast<const std::byte*>(longer.data()) + row_of(row * (p.out_width() + 8)),
                row_of(p.out_width()));
  }
  const Result short_rows = run_attention(device, p, qkv, upstream), long_rows = run_attention(device, p, qkv, longer);
  CHECK(long_rows.gradient.same_bits(short_rows.gradient));
}

TEST_CASE("attention forward and backward: the same bits each time", "[attention]") {
  if (tested_attention() == GpuAttention::cudnn) return;
  Device device;
  const Problem p{{2, 200, 4, 2, 16}, DType::bf16};  // four tiles of keys add to a query's gradient
  const Tensor qkv = Tensor::random(p.tokens(), p.width(), p.dtype, 1),
               upstream = Tensor::random(p.tokens(), p.out_width(), p.dtype, 2);
  const Result first = run_attention(device, p, qkv, upstream);
  for (int i = 0; i < 4; ++i) CHECK(run_attention(device, p, qkv, upstream).gradient.same_bits(first.gradient));
}

TEST_CASE("attention survives scores that overflow exp, and passes NaN on", "[attention]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t head_width : {16, 72}) {
      INFO(name_of(dtype) << " heads of " << head_width);
      const Problem p{{1, 70, 1, 1, head_width}, dtype};
      Doubles values = Tensor::random(p.tokens(), p.width(), dtype, 1, 40.0).values();
      Tensor qkv(p.tokens(), p.width(), dtype);
      from_doubles(values, dtype, qkv.data());
      const Tensor upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
      Result r = run_attention(device, p, qkv, upstream);
      for (const double v : r.output.values()) CHECK(std::isfinite(v));
      for (const double v : r.gradient.values()) CHECK(std::isfinite(v));
      values[static_cast<std::size_t>(69 * p.width())] = NAN;  // the last query: no other reads it
      from_doubles(values, dtype, qkv.data());
      r = run_attention(device, p, qkv, upstream);
      for (std::int64_t i = 0; i < 70; ++i) {
        CHECK(std::isnan(at(r.output.values(), p.out_width(), i, 0)) == (i == 69));
      }
    }
  }
}

TEST_CASE("attention gives the same bits on any number of threads", "[attention]") {
  const Problem p{{2, 150, 4, 2, 24}, DType::fp32};
  const Tensor qkv = Tensor::random(p.tokens(), p.width(), p.dtype, 1),
               upstream = Tensor::random(p.tokens(), p.out_width(), p.dtype, 2);
  std::vector<Result> results;
  for (const int threads : {1, 2, 3}) {
    Device device(threads);
    results.push_back(run_attention(device, p, qkv, upstream));
    CHECK(results.back().output.same_bits(results.front().output));
    CHECK(results.back().log_sum_exp.same_bits(results.front().log_sum_exp));
    CHECK(results.back().gradient.same_bits(results.front().gradient));
  }
}

TEST_CASE("attention's dropout: every implementation and tiling has the same masks", "[attention][dropout]") {
  const AttentionShape shapes[] = {{2, 70, 4, 2, 16}, {1, 17, 1, 1, 24}, {1, 150, 2, 1, 64}, {1, 140, 2, 1, 128}};
  Device device;
  for (const DType dtype : kFloatTypes) {
    for (const AttentionShape& shape : shapes) {
      INFO(name_of(dtype) << " " << shape.batch << " x " << shape.sequence << ", heads of " << shape.head_width);
      const Problem p{shape, dtype};
      const Tensor qkv = Tensor::random(p.tokens(), p.width(), dtype, 1),
                   upstream = Tensor::random(p.tokens(), p.out_width(), dtype, 2);
      StepScalars scalars;
      scalars.seed = 3, scalars.step = 5, scalars.first_sample = 11;
      Dropout dropout;
      dropout.probability = 0.3f, dropout.sequence = shape.sequence, dropout.layer = 2;
      dropout.site = DropoutSite::attention, dropout.scalars = &scalars;
      const Reference reference(p, qkv.values(), upstream.values(), mask_of(dropout, shape));
      const Result r = run_attention(device, p, qkv, upstream, dropout);
      check_result(r, reference, dtype);
    }
  }
}

TEST_CASE("attention with dropout: backward is the gradient of forward with the same mask", "[attention][dropout]") {
  Device device;
  const Problem p{{2, 70, 2, 1, 4}, DType::fp32};
  const Tensor qkv = Tensor::random(p.tokens(), p.width(), p.dtype, 1),
               upstream = Tensor::random(p.tokens(), p.out_width(), p.dtype, 2);
  StepScalars scalars;
  scalars.seed = 3, scalars.step = 5, scalars.first_sample = 11;
  Dropout dropout;
  dropout.probability = 0.3f, dropout.sequence = 70, dropout.layer = 2;
  dropout.site = DropoutSite::attention, dropout.scalars = &scalars;
  const Result r = run_attention(device, p, qkv, upstream, dropout);
  const Doubles gradient = r.gradient.values(), direction = Tensor::random(p.tokens(), p.width(), p.dtype, 9).values();
  const auto objective = [&](double step) {
    Doubles moved = qkv.values();
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
    Tensor shifted(p.tokens(), p.width(), p.dtype);
    from_doubles(moved, p.dtype, shifted.data());
    const Doubles out = run_attention(device, p, shifted, upstream, dropout).output.values(), up = upstream.values();
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * up[i];
    return sum;
  };
  double along = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) along += gradient[i] * direction[i];
  CHECK((objective(1e-3) - objective(-1e-3)) / 2e-3 == Approx(along).epsilon(3e-3));
  CHECK(relative_error(r.output.values(), run_attention(device, p, qkv, upstream).output.values()) > 0.1);
}
