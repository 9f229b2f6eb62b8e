// Linear layers: cuBLASLt with its epilogues if they round as the contract of kernels.hpp says. Otherwise the matmul
// goes through fp32 memory in pieces of rows and one of our kernels finishes it. The library's forward GELU activates
// the unrounded output, so it is used where backward reads what forward has made, and in runs that need not be
// deterministic. Tessera's activates the stored one, so that backward can reproduce the bits. The library's bias
// gradients are not used: they cannot be accumulated, and their order of summation is not documented.

#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/finish_matmul.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

MatmulOperand rows_from(const MatmulOperand& operand, std::int64_t row) {
  return {operand.transposed ? operand.view.columns_from(row) : operand.view.rows_from(row), operand.transposed};
}
ConstView rows_from(const ConstView& view, std::int64_t row) { return view ? view.rows_from(row) : view; }

/// Multiplies two operands in fp8 instead, whose rows are added up: `a` is [m, k] and `b` is [n, k].
void multiply_fp8(Matmul& p, const ConstView& a, const float* a_factor, const ConstView& b, const float* b_factor) {
  p.a = {a, false}, p.b = {b, true};
  p.k = round_up(p.k, kFp8Pad);
  p.a_factor = a_factor, p.b_factor = b_factor;
}

}  // namespace

template <class Finish>
void CudaKernels::matmul_by_pieces(cudaStream_t stream, Matmul p, Finish finish) {
  const MatmulOperand a = p.a;
  const std::int64_t all = p.m, columns = p.n;
  if (p.a_factor != nullptr) p.n = round_up(columns, kFp8Pad);  // the library demands it; b has zeros there
  const std::int64_t most = limits_.workspace_floats / p.n;
  if (most < 1)
    throw refusal("a matrix of {} columns is too wide", columns)
        .because("the GPU's workspace holds only {}", limits_.workspace_floats);
  p.c = {}, p.epilogue = MatmulEpilogue::none, p.operand = {};
  p.d = {workspace_, DType::fp32, p.n};
  for (std::int64_t first = 0; first < all; first += most) {
    p.m = std::min(most, all - first);
    p.a = rows_from(a, first);
    matmuls_.require(stream, p);
    finish(FinishRows{p.d, first, p.m, columns});
  }
}

void CudaKernels::enqueue(cudaStream_t stream, const LinearForward& a) {
  const View target = a.output ? a.output : a.activated;
  Matmul p;
  p.m = a.tokens, p.n = a.out, p.k = a.in;
  p.a = {a.input, false};
  p.b = {a.weight, a.layout == WeightLayout::out_in};
  if (a.input8) {
    const Fp8Operand& weight = a.weight8;
    const bool lies = a.layout == WeightLayout::out_in;
    multiply_fp8(p, a.input8.view, a.input8.factor, lies ? weight.view : weight.turned, weight.factor);
    p.is_coarse = true;
  }
  p.c = a.residual, p.d = target, p.scale = a.scale;
  if (a.bias) p.epilogue = MatmulEpilogue::bias, p.operand = a.bias;
  if ((fuses_gelu_ || a.is_kept) && a.largest == nullptr && a.bias && a.output && a.activated && !a.residual &&
      !a.dropout.on()) {
    Matmul fused = p;
    fused.epilogue = MatmulEpilogue::bias_gelu, fused.d = a.activated, fused.before_gelu = a.output;
    if (matmuls_.run(stream, fused)) return;
  }
  if (a.dropout.on() || !matmuls_.run(stream, p)) {
    matmul_by_pieces(stream, p, [&](const FinishRows& rows) {
      finish_linear(stream, rows, a.bias, rows_from(a.residual, rows.first_row), target.rows_from(rows.first_row),
                    a.dropout);
    });
  }
  if (a.activated) enqueue(stream, GeluForward{a.tokens, a.out, target, a.activated, a.largest});
}

void CudaKernels::store_gradient_matmul(cudaStream_t stream, Matmul p, const GradientView& gradient) {
  p.d = gradient.view;
  p.c = gradient.adds ? gradient.view : ConstView{};
  if (matmuls_.run(stream, p)) return;
  matmul_by_pieces(stream, p, [&](const FinishRows& rows) {
    finish_gradient(stream, rows, {gradient.view.rows_from(rows.first_row), gradient.adds});
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const LinearBackward& a) {
  const bool in_out = a.layout == WeightLayout::in_out;
  if (a.input_gradient) {
    Matmul p;
    p.m = a.tokens, p.n = a.in, p.k = a.out;
    p.a = {a.output_gradient, false};
    p.b = {a.weight, in_out};
    if (a.gradient8) {
      const Fp8Operand& weight = a.weight8;
      multiply_fp8(p, a.gradient8.view, a.gradient8.factor, in_out ? weight.view : weight.turned, weight.factor);
    }
    p.d = a.input_gradient, p.scale = a.scale;
    if (a.before_gelu) p.epilogue = MatmulEpilogue::gelu_backward, p.operand = a.before_gelu;
    p.c = a.input_adds ? a.input_gradient : ConstView{};
    if (a.input_dropout.on() || !matmuls_.run(stream, p)) {
      matmul_by_pieces(stream, p, [&](const FinishRows& rows) {
        finish_input_gradient(stream, rows, rows_from(a.before_gelu, rows.first_row),
                              {a.input_gradient.rows_from(rows.first_row), a.input_adds}, a.input_dropout);
      });
    }
  }
  if (a.weight_gradient) {
    Matmul p;
    p.m = in_out ? a.in : a.out, p.n = in_out ? a.out : a.in, p.k = a.tokens;
    p.a = {in_out ? a.input : a.output_gradient, true};
    p.b = {in_out ? a.output_gradient : a.input, false};
    if (a.gradient8) {
      const Fp8Operand &left = in_out ? a.input8 : a.gradient8, &right = in_out ? a.gradient8 : a.input8;
      multiply_fp8(p, left.turned, left.factor, right.turned, right.factor);
    }
    p.scale = a.scale;
    store_gradient_matmul(stream, p, a.weight_gradient);
  }
  if (a.bias_gradient && a.output_gradient_sums) {
    sum_columns(stream, a.output_gradient_sums.rows, a.out, {a.output_gradient_sums.data, a.bias_gradient});
  } else if (a.bias_gradient) {
    sum_rows(stream, a.output_gradient, a.tokens, a.out, a.bias_gradient, workspace_, limits_.workspace_floats);
  }
}

}  // namespace tessera
