#include "tessera/kernels/kernel_cost.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// Returns the FLOPs of [a, b] times [b, c].
double matmul_flops(std::int64_t a, std::int64_t b, std::int64_t c) {
  return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// Returns the FLOPs of one matmul of queries and keys (or weights and values), counting only what queries see.
double attention_matmul_flops(const AttentionShape& s) {
  const auto rows = static_cast<double>(s.sequence), most = s.has_window() ? static_cast<double>(s.window) : rows;
  const double twice_the_pairs = (2 * rows - most + 1) * most;
  return static_cast<double>(s.batch) * twice_the_pairs * static_cast<double>(s.heads * s.head_width);
}

/// Returns the bytes of a matrix that may be empty.
double bytes_of(const ConstView& view, std::int64_t rows, std::int64_t columns) {
  return view ? bytes_of(rows * columns, view.dtype) : 0;
}

/// Returns the bytes of what a linear reads of an operand.
double bytes_of(const ConstView& exact, const Fp8Operand& rounded, std::int64_t rows, std::int64_t columns) {
  if (!rounded) return bytes_of(exact, rows, columns);
  return bytes_of(rounded.view ? rounded.view : rounded.turned, rows, columns);
}

double bytes_of(const GradientView& gradient, std::int64_t elements) {
  return gradient ? (gradient.adds ? 2 : 1) * bytes_of(elements, gradient.view.dtype) : 0;
}

/// Returns how many distinct values of `vocab` are expected in `tokens` uniform draws.
double distinct_tokens(std::int64_t tokens, std::int64_t vocab) {
  return static_cast<double>(vocab) *
         -std::expm1(static_cast<double>(tokens) * std::log1p(-1.0 / static_cast<double>(vocab)));
}

/// Counts query and output; key and value; log-sum-exp.
double attention_bytes(const AttentionShape& s, DType dtype, int wide, int narrow) {
  const std::int64_t tokens = s.batch * s.sequence;
  return wide * bytes_of(tokens * s.heads * s.head_width, dtype) +
         narrow * bytes_of(tokens * s.kv_heads * s.head_width, dtype) + bytes_of(tokens * s.heads, DType::fp32);
}

}  // namespace

double bytes_of(std::int64_t count, DType dtype) {
  return static_cast<double>(count) * static_cast<double>(size_of(dtype));
}

KernelCost cost_of(const EmbeddingForward& a) {
  return {0, bytes_of(2 * a.batch * a.sequence * a.width, a.output.dtype) +
                 bytes_of(a.position_table, a.sequence, a.width)};
}

KernelCost cost_of(const EmbeddingBackward& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  const double table = a.token_gradient.adds
                           ? 2 * distinct_tokens(tokens, a.vocab) * bytes_of(a.width, a.token_gradient.view.dtype)
                           : bytes_of(a.token_gradient, a.vocab * a.width);
  return {0, bytes_of(tokens * a.width, a.output_gradient.dtype) + table +
                 bytes_of(a.position_gradient, a.context * a.width)};
}

KernelCost cost_of(const NormForward& a) {
  const double statistics = bytes_of(a.tokens * (a.mean != nullptr ? 2 : 1), DType::fp32);
  return {0, bytes_of(a.input, a.tokens, a.width) + bytes_of(a.residual, a.tokens, a.width) +
                 bytes_of(a.output, a.tokens, a.width) + statistics};
}

KernelCost cost_of(const NormBackward& a) {
  const double statistics = bytes_of(a.tokens * (a.mean != nullptr ? 2 : 1), DType::fp32);
  return {0, bytes_of((3 + (a.input_adds ? 1 : 0) + (a.normalized ? 1 : 0)) * a.tokens * a.width, a.input.dtype) +
                 statistics};
}

KernelCost cost_of(const LinearForward& a) {
  return {matmul_flops(a.tokens, a.in, a.out),
          bytes_of(a.input, a.input8, a.tokens, a.in) + bytes_of(a.weight, a.weight8, a.in, a.out) +
              bytes_of(a.residual, a.tokens, a.out) + bytes_of(a.output, a.tokens, a.out) +
              bytes_of(a.activated, a.tokens, a.out)};
}

KernelCost cost_of(const LinearBackward& a) {
  const double one = matmul_flops(a.tokens, a.in, a.out);
  KernelCost cost{0, bytes_of(a.output_gradient, a.gradient8, a.tokens, a.out) + bytes_of(a.bias_gradient, a.out)};
  if (a.input_gradient) {
    cost.flops += one;
    cost.bytes += bytes_of(a.weight, a.weight8, a.in, a.out) +
                  (a.input_adds ? 2 : 1) * bytes_of(a.input_gradient, a.tokens, a.in) +
                  bytes_of(a.before_gelu, a.tokens, a.in);
  }
  if (a.weight_gradient) {
    cost.flops += one;
    cost.bytes += bytes_of(a.input, a.input8, a.tokens, a.in) + bytes_of(a.weight_gradient, a.in * a.out);
  }
  return cost;
}

KernelCost cost_of(const AttentionForward& a) {
  return {2 * attention_matmul_flops(a.shape), attention_bytes(a.shape, a.query.dtype, 2, 2)};
}

KernelCost cost_of(const AttentionBackward& a) {
  return {5 * attention_matmul_flops(a.shape), attention_bytes(a.shape, a.query.dtype, 4, 4)};
}

KernelCost cost_of(const AttentionCached& a) {
  const std::int64_t rows = a.shape.batch * a.shape.sequence, width = a.shape.heads * a.shape.head_width;
  const std::int64_t seen = a.shape.window > 0 ? std::min(a.limit, a.shape.window) : a.limit;
  const std::int64_t cached = 2 * a.shape.batch * seen * a.shape.kv_heads * a.shape.head_width;
  return {2 * matmul_flops(rows, width, seen), bytes_of(2 * rows * width + cached, a.query.dtype)};
}

KernelCost cost_of(const RotaryArguments& a) {
  return {0, bytes_of(2 * a.batch * a.sequence * a.heads * a.head_width, a.input.dtype)};
}

KernelCost cost_of(const GluForward& a) { return {0, bytes_of(3 * a.tokens * a.width, a.gate.dtype)}; }

KernelCost cost_of(const GluBackward& a) {
  return {0, bytes_of((a.output ? 6 : 5) * a.tokens * a.width, a.gate.dtype)};
}

KernelCost cost_of(const HeadArguments& a) {
  const double one = matmul_flops(a.tokens, a.width, a.vocab);  // without the table's padding rows of zeros
  KernelCost cost{one, bytes_of(a.input, a.tokens, a.width) + bytes_of(a.table, a.vocab, a.width)};
  if (a.training()) {
    cost.flops += a.table_gradient ? 2 * one : one;
    cost.bytes += bytes_of(a.input_gradient, a.tokens, a.width) + bytes_of(a.table_gradient, a.vocab * a.width);
  }
  return cost;
}

KernelCost cost_of(const UpdateArguments& a) {
  const double copy = a.copy != nullptr ? bytes_of(a.elements, a.copy_dtype) : 0;
  // Master and states, read and written; Muon's direction, read.
  return {0, bytes_of((a.direction != nullptr ? 3 : 2) * a.elements, DType::fp32) +
                 bytes_of(2 * std::ssize(a.states) * a.elements, a.states_dtype) +
                 bytes_of(a.elements, a.gradient_dtype) + copy};
}

KernelCost cost_of(const DirectionArguments& a) {
  return {0, bytes_of(a.elements, DType::fp32) + bytes_of(a.elements, a.state_dtype) +
                 bytes_of(a.elements, a.gradient_dtype)};
}

KernelCost cost_of(const OrthogonalizeArguments& a) {
  const std::int64_t side = std::min(a.rows, a.columns), depth = std::max(a.rows, a.columns);
  const double step = 2 * matmul_flops(side, depth, side) + matmul_flops(side, side, side);
  return {static_cast<double>(a.steps) * step, bytes_of(2 * a.rows * a.columns, DType::fp32)};
}

}  // namespace tessera
