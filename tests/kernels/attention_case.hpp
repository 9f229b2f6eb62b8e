#pragma once
// Attention on one problem: the kernels' result, and the same written down plainly in double.

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/tensors.hpp"
#include "tessera/base/counter_rng.hpp"

namespace tessera::testing {

/// Queries, keys and values side by side, as a block keeps them.
struct Problem {
  AttentionShape shape;
  DType dtype;
  std::int64_t width() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_width; }
  std::int64_t out_width() const { return shape.heads * shape.head_width; }
  std::int64_t tokens() const { return shape.batch * shape.sequence; }
  std::int64_t key() const { return shape.heads * shape.head_width; }
  std::int64_t value() const { return (shape.heads + shape.kv_heads) * shape.head_width; }
};

/// The factor of (sample, head, query, key)'s probability.
using Mask = std::function<double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>;

/// Returns dropout's mask, written down plainly: the number of an element decides.
inline Mask mask_of(const Dropout& dropout, const AttentionShape& shape) {
  return [=](std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t key) {
    const auto u = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
    const auto number = [](const auto& words) { return words[0] | static_cast<std::uint64_t>(words[1]) << 32; };
    const StepScalars& scalars = *dropout.scalars;
    const std::uint32_t site = static_cast<std::uint32_t>(dropout.layer) * 4 + static_cast<std::uint32_t>(dropout.site);
    const auto of_sample = philox(scalars.seed, RandomUse::dropout, site, u(scalars.first_sample + sample));
    const auto of_step = philox(number(of_sample), RandomUse::dropout, site, u(scalars.step));
    const std::uint64_t half = (u(shape.sequence) + 15) / 16 * 8;
    const std::uint64_t row = u(query) / 16 * 8 + u(query) % 8, column = u(key) / 16 * 8 + u(key) % 8;
    const auto words = philox(number(of_step), RandomUse::dropout, site, (u(head) * half + row) * half + column);
    const bool drops = to_uniform(words[u(query) / 8 % 2 * 2 + u(key) / 8 % 2]) < dropout.probability;
    return drops ? 0.0 : 1 / (1 - static_cast<double>(dropout.probability));
  };
}

/// The position of each row in its document; empty: one document per sequence.
using Positions = std::vector<std::int32_t>;

inline double no_mask(std::int64_t, std::int64_t, std::int64_t, std::int64_t) { return 1; }

/// Attention and its gradients written down plainly in double.
struct Reference {
  Doubles output, log_sum_exp, gradient;

  Reference(const Problem& p, const Doubles& qkv, const Doubles& upstream, const Mask& mask = no_mask,
            const Positions& positions = {})
      : output(static_cast<std::size_t>(p.tokens() * p.out_width())),
        log_sum_exp(static_cast<std::size_t>(p.shape.batch * p.shape.heads * p.shape.sequence)),
        gradient(qkv.size()) {
    const AttentionShape& s = p.shape;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_width));
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t kv = h / (s.heads / s.kv_heads), q0 = h * s.head_width;
        const std::int64_t k0 = p.key() + kv * s.head_width, v0 = p.value() + kv * s.head_width;
        for (std::int64_t i = 0; i < s.sequence; ++i) {
          const std::int64_t row = b * s.sequence + i;
          const auto in = [&](std::int64_t t, std::int64_t c) { return at(qkv, p.width(), b * s.sequence + t, c); };
          const auto grad = [&](std::int64_t t, std::int64_t c) -> double& {
            return gradient[static_cast<std::size_t>((b * s.sequence + t) * p.width() + c)];
          };
          Doubles probability(static_cast<std::size_t>(i + 1)), dp(probability.size());
          double sum = 0, mean = 0;
          std::int64_t first = positions.empty() ? 0 : i - positions[static_cast<std::size_t>(row)];
          if (s.window > 0) first = std::max(first, i - s.window + 1);
          for (std::int64_t j = first; j <= i; ++j) {
            double score = 0;
            for (std::int64_t c = 0; c < s.head_width; ++c) score += in(i, q0 + c) * in(j, k0 + c);
            sum += probability[static_cast<std::size_t>(j)] = std::exp(score * scale);
          }
          log_sum_exp[static_cast<std::size_t>((b * s.heads + h) * s.sequence + i)] = std::log(sum);
          for (std::int64_t j = first; j <= i; ++j) {
            const auto k = static_cast<std::size_t>(j);
            probability[k] /= sum;
            const double kept = mask(b, h, i, j);
            for (std::int64_t c = 0; c < s.head_width; ++c) {
              const double up = at(upstream, p.out_width(), row, q0 + c);
              output[static_cast<std::size_t>(row * p.out_width() + q0 + c)] += probability[k] * kept * in(j, v0 + c);
              grad(j, v0 + c) += probability[k] * kept * up;
              dp[k] += up * kept * in(j, v0 + c);
            }
            mean += probability[k] * dp[k];
          }
          for (std::int64_t j = first; j <= i; ++j) {
            const auto k = static_cast<std::size_t>(j);
            const double ds = probability[k] * (dp[k] - mean) * scale;
            for (std::int64_t c = 0; c < s.head_width; ++c) {
              grad(i, q0 + c) += ds * in(j, k0 + c);
              grad(j, k0 + c) += ds * in(i, q0 + c);
            }
          }
        }
      }
    }
  }
};

struct Result {
  Tensor output, log_sum_exp, gradient;
  bool scratch_intact;
};

inline void check_result(const Result& r, const Reference& expected, DType dtype) {
  CHECK(relative_error(r.output.values(), expected.output) < tolerance(dtype));
  CHECK(relative_error(r.log_sum_exp.values(), expected.log_sum_exp) < tolerance(DType::fp32));
  CHECK(relative_error(r.gradient.values(), expected.gradient) < 2 * tolerance(dtype));
  CHECK((r.output.intact() && r.log_sum_exp.intact() && r.gradient.intact() && r.scratch_intact));
}

/// Returns where documents begin, and empty ones at the end: AttentionForward::borders. Nothing without documents.
inline std::vector<std::int32_t> borders_of(const AttentionShape& shape, const Positions& positions) {
  std::vector<std::int32_t> borders;
  if (shape.documents == 0) return borders;
  for (std::size_t row = 0; row < positions.size(); ++row)
    if (positions[row] == 0) borders.push_back(static_cast<std::int32_t>(row));
  borders.resize(static_cast<std::size_t>(shape.documents) + 1, static_cast<std::int32_t>(positions.size()));
  return borders;
}

/// Turns the log-sum-exp that cuDNN leaves of documents, [batch, sequence, heads], into [batch, heads, sequence].
inline void turn_log_sum_exp(const AttentionShape& s, Tensor& tensor) {
  const std::vector<float> found(tensor.floats(), tensor.floats() + s.batch * s.heads * s.sequence);
  for (std::int64_t row = 0; row < s.batch * s.sequence; ++row)
    for (std::int64_t head = 0; head < s.heads; ++head)
      tensor.floats()[(row / s.sequence * s.heads + head) * s.sequence + row % s.sequence] =
          found[static_cast<std::size_t>(row * s.heads + head)];
}

inline Result run_attention(Device& device, const Problem& p, const Tensor& qkv, const Tensor& upstream,
                            const Dropout& dropout = {}, const Positions& positions = {}) {
  Result r{Tensor(p.tokens(), p.out_width(), p.dtype),
           Tensor(p.shape.batch * p.shape.heads, p.shape.sequence, DType::fp32), Tensor(p.tokens(), p.width(), p.dtype),
           true};
  AttentionForward f;
  f.shape = p.shape, f.dropout = dropout, f.positions = positions.empty() ? nullptr : positions.data();
  f.query = qkv.view(), f.key = qkv.view().columns_from(p.key()), f.value = qkv.view().columns_from(p.value());
  f.output = r.output.view(), f.log_sum_exp = r.log_sum_exp.floats();
  const std::vector<std::int32_t> borders = borders_of(p.shape, positions);
  f.borders = borders.empty() ? nullptr : borders.data();
  device.run(f);
  Guarded scratch(kernel_needs(tested_kind()).attention_backward(p.shape, p.dtype, tested_attention()));
  AttentionBackward b;
  b.shape = p.shape, b.dropout = dropout, b.positions = f.positions, b.borders = f.borders;
  b.query = f.query, b.key = f.key, b.value = f.value, b.output = r.output.view(), b.log_sum_exp = f.log_sum_exp;
  b.output_gradient = upstream.view();
  b.query_gradient = r.gradient.view(), b.key_gradient = r.gradient.view().columns_from(p.key());
  b.value_gradient = r.gradient.view().columns_from(p.value()), b.scratch = scratch.data();
  device.run(b);
  r.scratch_intact = scratch.intact();
  if (f.borders != nullptr && tested_attention() != GpuAttention::own) turn_log_sum_exp(p.shape, r.log_sum_exp);
  return r;
}

}  // namespace tessera::testing
