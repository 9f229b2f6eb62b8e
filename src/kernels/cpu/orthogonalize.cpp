#include <cmath>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/layouts.hpp"
#include "kernels/cpu/tile_matmul.hpp"
#include "kernels/newton_schulz.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

namespace {

/// d = scale a b + c_scale c, of row-major fp32 matrices; c may be empty, or d's own memory.
struct ScaledMatmul {
  std::int64_t m = 0, n = 0, k = 0;
  Operand a, b;
  float scale = 1.0f;
  const float* c = nullptr;
  float c_scale = 1.0f;
  float* d = nullptr;
};

}  // namespace

void CpuKernels::compute(const Orthogonalize& a) {
  if (!a.input) return;
  ScratchLayout memory(a.scratch, cpu_kernel_needs().orthogonalize(a.rows, a.columns));
  const OrthogonalizeLayout layout(memory, a.rows, a.columns);
  const bool wide = a.rows <= a.columns;
  const std::int64_t side = std::min(a.rows, a.columns), depth = std::max(a.rows, a.columns);
  const auto operand = [](const float* data, std::int64_t stride, bool transposed) {
    return Operand{{data, DType::fp32, stride}, transposed};
  };
  const auto multiply = [&](const ScaledMatmul& p) {
    const Tiling rows = Tiling::balanced(p.m, kTileRows, 16), columns = Tiling::balanced(p.n, kTileColumns, 64);
    pool_.parallel_for(rows.count() * columns.count(), [&](std::int64_t task, int worker) {
      const Tile r = rows[task % rows.count()], c = columns[task / rows.count()];
      float* const to = p.d + r.begin * p.n + c.begin;
      tile_matmul(vector_, scratch_of(worker), p.a.from(r.begin, 0), p.b.from(0, c.begin), r.size(), c.size(), p.k,
                  false, to, p.n);
      for (std::int64_t i = 0; p.c != nullptr && i < r.size(); ++i) {
        const float* const from = p.c + (r.begin + i) * p.n + c.begin;
        for (std::int64_t j = 0; j < c.size(); ++j) to[i * p.n + j] = p.scale * to[i * p.n + j] + p.c_scale * from[j];
      }
    });
  };

  pool_.parallel_for(a.rows, [&](std::int64_t row, int) {
    const auto* const x = static_cast<const float*>(a.input.at(row));
    double sum = 0;
    for (std::int64_t i = 0; i < a.columns; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    layout.row_sums[row] = sum;
  });
  double squares = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) squares += layout.row_sums[row];
  const auto norm = static_cast<float>(std::max(std::sqrt(squares), kNewtonSchulzEpsilon));
  pool_.parallel_for(a.rows, [&](std::int64_t row, int) {
    const auto* const from = static_cast<const float*>(a.input.at(row));
    for (std::int64_t i = 0; i < a.columns; ++i) layout.x[row * a.columns + i] = from[i] / norm;
  });

  float *x = layout.x, *next = layout.next;
  for (std::int64_t step = 0; step < a.steps; ++step) {
    // A matrix times its own transpose.
    ScaledMatmul gram{side, side, depth, operand(x, a.columns, !wide), operand(x, a.columns, wide)};
    gram.d = layout.gram;
    multiply(gram);
    ScaledMatmul polynomial{side, side, side, operand(layout.gram, side, false), operand(layout.gram, side, false)};
    polynomial.scale = kNewtonSchulz[2], polynomial.c = layout.gram, polynomial.c_scale = kNewtonSchulz[1];
    polynomial.d = layout.polynomial;
    multiply(polynomial);
    const Operand factor = operand(layout.polynomial, side, false), matrix = operand(x, a.columns, false);
    ScaledMatmul next_matmul{a.rows, a.columns, side, wide ? factor : matrix, wide ? matrix : factor};
    next_matmul.c = x, next_matmul.c_scale = kNewtonSchulz[0], next_matmul.d = next;
    multiply(next_matmul);
    std::swap(x, next);
  }
  pool_.parallel_for(a.rows, [&](std::int64_t row, int) {
    std::copy_n(x + row * a.columns, a.columns, static_cast<float*>(a.output.at(row)));
  });
}

}  // namespace tessera
