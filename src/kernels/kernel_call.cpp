#include "tessera/kernels/kernel_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/math.hpp"

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

double bytes_of(std::int64_t count, DType dtype) {
  return static_cast<double>(count) * static_cast<double>(size_of(dtype));
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

/// Formats "[4096, 768]"
std::string matrix(std::int64_t rows, std::int64_t columns) { return fmt::format("[{}, {}]", rows, columns); }

/// Returns the call of a kernel without matmuls.
KernelCall other(const char* name, std::string shape, double bytes, DType dtype, std::string_view priced_as = {}) {
  return {.name = name, .shape = std::move(shape), .cost = {0, bytes}, .dtype = dtype, .priced_as = priced_as};
}
/// The same for one whose shape is a type alone.
KernelCall other(const char* name, double bytes, DType dtype) {
  return other(name, std::string(name_of(dtype)), bytes, dtype);
}

KernelCall call_of(const EmbeddingForward& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  return other("embedding forward", matrix(tokens, a.width),
               bytes_of(2 * tokens * a.width, a.output.dtype) + bytes_of(a.position_table, a.sequence, a.width),
               a.output.dtype);
}

/// If it adds, only rows of occurring tokens are touched: the expected number for uniform draws.
KernelCall call_of(const EmbeddingBackward& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  const double table = a.token_gradient.adds
                           ? 2 * distinct_tokens(tokens, a.vocab) * bytes_of(a.width, a.token_gradient.view.dtype)
                           : bytes_of(a.token_gradient, a.vocab * a.width);
  const DType t = a.output_gradient.dtype;
  return other("embedding backward", matrix(tokens, a.width),
               bytes_of(tokens * a.width, t) + table + bytes_of(a.position_gradient, a.context * a.width), t);
}

KernelCall call_of(const NormForward& a) {
  const double statistics = bytes_of(a.tokens * (a.mean != nullptr ? 2 : 1), DType::fp32);
  return other("norm forward", matrix(a.tokens, a.width) + (a.residual ? ", residual" : ""),
               bytes_of(a.input, a.tokens, a.width) + bytes_of(a.residual, a.tokens, a.width) +
                   bytes_of(a.output, a.tokens, a.width) + statistics,
               a.input.dtype);
}

KernelCall call_of(const NormBackward& a) {
  const double statistics = bytes_of(a.tokens * (a.mean != nullptr ? 2 : 1), DType::fp32);
  return other(
      "norm backward", matrix(a.tokens, a.width),
      bytes_of((3 + (a.input_adds ? 1 : 0) + (a.normalized ? 1 : 0)) * a.tokens * a.width, a.input.dtype) + statistics,
      a.input.dtype);
}

KernelCall call_of(const ToFp8& a) {
  const std::int64_t n = a.output || a.turned ? a.rows * a.columns : 0;
  double bytes = bytes_of(a.largest != nullptr ? n : 2 * n, a.input.dtype);  // twice where that is to be found
  if (a.output) bytes += bytes_of(n, a.output.dtype);
  if (a.turned) bytes += bytes_of(n, a.turned.dtype);
  return other("to fp8", matrix(a.rows, a.columns), bytes, a.input.dtype);
}

KernelCall call_of(const LargestMagnitude& a) {
  return other("largest magnitude", bytes_of(a.elements, a.x.dtype), a.x.dtype);
}

KernelCall call_of(const ToCodes& a) {
  return other("to codes", bytes_of(a.elements, a.x.dtype) + bytes_of(a.elements, DType::e4m3), a.x.dtype);
}

bool is_packed(const Fp8Operand& operand) { return operand && size_of(operand.view.dtype) == 1; }

KernelCall call_of(const LinearForward& a) {
  return {.name = "linear forward",
          .shape = fmt::format("{} to {}{}{}{}", matrix(a.tokens, a.in), a.out, a.activated ? ", gelu" : "",
                               a.residual ? ", residual" : "", is_packed(a.input8) ? ", fp8" : ""),
          .group = KernelGroup::linear,
          .cost = {matmul_flops(a.tokens, a.in, a.out),
                   bytes_of(a.input, a.input8, a.tokens, a.in) + bytes_of(a.weight, a.weight8, a.in, a.out) +
                       bytes_of(a.residual, a.tokens, a.out) + bytes_of(a.output, a.tokens, a.out) +
                       bytes_of(a.activated, a.tokens, a.out)},
          .dtype = a.input.dtype,
          .sizes = {a.tokens, a.in, a.out},
          .has_gelu = static_cast<bool>(a.activated),
          .is_fp8 = is_packed(a.input8)};
}

KernelCall call_of(const LinearBackward& a) {
  const char* half = !a.weight_gradient ? ", input" : !a.input_gradient ? ", weight" : "";
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
  return {.name = "linear backward",
          .shape = fmt::format("{} to {}{}{}{}", matrix(a.tokens, a.in), a.out, a.before_gelu ? ", gelu" : "", half,
                               is_packed(a.gradient8) ? ", fp8" : ""),
          .group = KernelGroup::linear,
          .cost = cost,
          .dtype = a.output_gradient.dtype,
          .sizes = {a.tokens, a.in, a.out},
          .has_gelu = static_cast<bool>(a.before_gelu),
          .is_fp8 = is_packed(a.gradient8)};
}

KernelCall call_of(const GeluForward& a) {
  return other("gelu", matrix(a.rows, a.columns), bytes_of(2 * a.rows * a.columns, a.input.dtype), a.input.dtype);
}

/// `window`: keys that a query sees; 0: all.
KernelCall attention(const char* name, const AttentionShape& s, std::int64_t window, const KernelCost& cost,
                     DType dtype) {
  std::string more = window > 0 ? fmt::format(", {} seen", window) : "";
  if (s.documents > 0) more += fmt::format(", {} documents", s.documents);
  // A window costs what as many tokens in sequences of twice its length do, whose queries see as many keys.
  const std::int64_t length = window > 0 ? std::min(s.sequence, 2 * window) : std::max<std::int64_t>(1, s.sequence);
  return {.name = name,
          .shape = fmt::format("{} x {} heads of {}, {} tokens{}", s.batch, s.heads, s.head_width, s.sequence, more),
          .group = KernelGroup::attention,
          .cost = cost,
          .dtype = dtype,
          .sizes = {ceil_div(s.batch * s.heads * s.sequence, length), length, s.head_width},
          .has_window = window > 0};
}

KernelCall call_of(const AttentionForward& a) {
  return attention("attention forward", a.shape, a.shape.has_window() ? a.shape.window : 0,
                   {2 * attention_matmul_flops(a.shape), attention_bytes(a.shape, a.query.dtype, 2, 2)}, a.query.dtype);
}

KernelCall call_of(const AttentionBackward& a) {
  return attention("attention backward", a.shape, a.shape.has_window() ? a.shape.window : 0,
                   {5 * attention_matmul_flops(a.shape), attention_bytes(a.shape, a.query.dtype, 4, 4)}, a.query.dtype);
}

/// Counts as if the cache were full. What it holds is not in the shape, so a call of generation goes by its rows.
KernelCall call_of(const AttentionCached& a) {
  const std::int64_t rows = a.shape.batch * a.shape.sequence, width = a.shape.heads * a.shape.head_width;
  const std::int64_t seen = a.shape.window > 0 ? std::min(a.limit, a.shape.window) : a.limit;
  const std::int64_t cached = 2 * a.shape.batch * seen * a.shape.kv_heads * a.shape.head_width;
  return attention("attention cached", a.shape, 0,
                   {2 * matmul_flops(rows, width, seen), bytes_of(2 * rows * width + cached, a.query.dtype)},
                   a.query.dtype);
}

KernelCall call_of(const Rotate& a) {
  const std::int64_t tokens = a.batch * a.sequence, width = a.heads * a.head_width;
  return other(a.inverse ? "rotary backward" : "rotary", matrix(tokens, width),
               bytes_of(2 * tokens * width, a.input.dtype), a.input.dtype, "rotary");
}

/// `matrices`, `codes`: that a gate reads and writes.
template <class Glu>
KernelCall gate(const char* name, const Glu& a, int matrices, int codes = 0) {
  const std::int64_t n = a.tokens * a.width;
  return other(name, matrix(a.tokens, a.width) + (a.activation == GateActivation::gelu ? ", gelu" : ""),
               bytes_of(matrices * n, a.gate.dtype) + bytes_of(codes * n, DType::e4m3), a.gate.dtype);
}
KernelCall call_of(const GluForward& a) { return gate("swiglu", a, 3); }
KernelCall call_of(const GluBackward& a) {
  if (a.gate_gradient8) return gate("swiglu backward", a, 6, a.output8 ? 5 : 4);  // reads all twice
  return gate("swiglu backward", a, a.output ? 6 : 5);
}

/// Counts one matmul, or three with gradients, and counts the logits as if they never left the chip.
KernelCall call_of(const HeadLoss& a) {
  const double one = matmul_flops(a.tokens, a.width, a.vocab);  // without the table's padding rows of zeros
  KernelCost cost{one, bytes_of(a.input, a.tokens, a.width) + bytes_of(a.table, a.vocab, a.width)};
  if (a.training()) {
    cost.flops += a.table_gradient ? 2 * one : one;
    cost.bytes += bytes_of(a.input_gradient, a.tokens, a.width) + bytes_of(a.table_gradient, a.vocab * a.width);
  }
  return {.name = a.training() ? "head, all" : "head loss",
          .shape = fmt::format("{} to {}", matrix(a.tokens, a.width), a.vocab),
          .group = KernelGroup::head,
          .cost = cost,
          .dtype = a.input.dtype,
          .sizes = {a.tokens, a.width, a.vocab},
          .priced_as = a.training() ? "head" : ""};
}

KernelCall call_of(const ApplyDropout& a) {
  return other("dropout", matrix(a.rows, a.columns), bytes_of(2 * a.rows * a.columns, a.input.dtype), a.input.dtype);
}

KernelCall call_of(const Cast& a) {
  return other("cast", fmt::format("{} to {}", name_of(a.from.dtype), name_of(a.to.dtype)),
               bytes_of(a.elements, a.from.dtype) + bytes_of(a.elements, a.to.dtype),
               a.to.dtype == DType::e4m3 ? a.from.dtype : a.to.dtype);
}

KernelCall call_of(const Add& sum) {
  const std::int64_t n = sum.elements;
  const double bytes = bytes_of(n, sum.a.dtype) + bytes_of(n, sum.b.dtype) + bytes_of(n, sum.out.dtype);
  return other("add", fmt::format("{} + {}", name_of(sum.a.dtype), name_of(sum.b.dtype)), bytes, sum.out.dtype);
}

KernelCall call_of(const SquareSum& a) { return other("square sum", bytes_of(a.elements, a.x.dtype), a.x.dtype); }

KernelCall call_of(const AddChecksum& a) {
  return other("checksum", "words", bytes_of(a.words, DType::fp32), DType::fp32);
}

KernelCall call_of(const ParameterUpdate& a) {
  const bool copies = a.copy != nullptr;
  const std::string copy = copies ? fmt::format(", {} copy", name_of(a.copy_dtype)) : "";
  // Master and states, read and written; Muon's direction, read.
  return other(name_of(a.rule), fmt::format("{} gradients{}", name_of(a.gradient_dtype), copy),
               bytes_of((a.direction != nullptr ? 3 : 2) * a.elements, DType::fp32) +
                   bytes_of(2 * std::ssize(a.states) * a.elements, a.states_dtype) +
                   bytes_of(a.elements, a.gradient_dtype) + (copies ? bytes_of(a.elements, a.copy_dtype) : 0),
               a.gradient_dtype);
}

KernelCall call_of(const MuonDirection& a) {
  const std::int64_t n = a.elements;
  const double bytes = bytes_of(n, DType::fp32) + bytes_of(n, a.state_dtype) + bytes_of(n, a.gradient_dtype);
  return other("muon direction", bytes, a.gradient_dtype);
}

std::optional<KernelCall> call_of(const Orthogonalize& a) {
  if (!a.input) return {};  // another rank's
  const std::int64_t side = std::min(a.rows, a.columns), depth = std::max(a.rows, a.columns);
  const double step = 2 * matmul_flops(side, depth, side) + matmul_flops(side, side, side);
  return KernelCall{.name = "orthogonalize",
                    .shape = matrix(a.rows, a.columns),
                    .cost = {static_cast<double>(a.steps) * step, bytes_of(2 * a.rows * a.columns, DType::fp32)},
                    .sizes = {a.rows, a.columns, 0}};
}

// A few hundred operations on numbers, and zeros in padding: too short to measure.
std::optional<KernelCall> call_of(const FillZero&) { return {}; }
std::optional<KernelCall> call_of(const AddLoss&) { return {}; }
std::optional<KernelCall> call_of(const Clip&) { return {}; }

}  // namespace

std::optional<KernelCall> describe(const KernelArguments& call) {
  auto known = std::visit([](const auto& a) -> std::optional<KernelCall> { return call_of(a); }, call);
  if (known) known->kind = call.index();
  return known;
}

}  // namespace tessera
