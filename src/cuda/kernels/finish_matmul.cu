#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/dropout_mask.cuh"
#include "cuda/kernels/finish_matmul.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

template <class T>
__global__ void __launch_bounds__(kPlaceThreads)
    finish_linear_kernel(Rows<const float> matmul, std::int64_t first_row, std::int64_t rows, std::int64_t columns,
                         const T* bias, Rows<const T> residual, Rows<T> output, DropoutSource dropout, bool aligned) {
  const Place at(rows, columns);
  if (at.left <= 0) return;
  const StoredPack<float> sum = load_pack(matmul.at(at.row, at.column), at.left, aligned);
  StoredPack<T> shift{}, added{};
  if (bias != nullptr) shift = load_pack(bias + at.column, at.left, aligned);
  if (residual.data != nullptr) added = load_pack(residual.at(at.row, at.column), at.left, aligned);
  float y[kPack], mask[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) y[i] = bias != nullptr ? __fadd_rn(sum[i], shift[i]) : sum[i];
  if (dropout.on()) {
    dropout.row_masks(first_row + at.row, columns, at.column, mask);
#pragma unroll
    for (int i = 0; i < kPack; ++i) y[i] = __fmul_rn(y[i], mask[i]);
  }
  if (residual.data != nullptr) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) y[i] = __fadd_rn(y[i], added[i]);
  }
  store_pack(output.at(at.row, at.column), at.left, aligned, y);
}

template <class T>
__global__ void __launch_bounds__(kPlaceThreads)
    finish_input_kernel(Rows<const float> matmul, std::int64_t first_row, std::int64_t rows, std::int64_t columns,
                        Rows<const T> before, Rows<T> gradient, DropoutSource dropout, bool adds, bool aligned) {
  const Place at(rows, columns);
  if (at.left <= 0) return;
  const StoredPack<float> sum = load_pack(matmul.at(at.row, at.column), at.left, aligned);
  StoredPack<T> x{}, old{};
  if (adds) old = load_pack(static_cast<const T*>(gradient.at(at.row, at.column)), at.left, aligned);
  if (before.data != nullptr) x = load_pack(before.at(at.row, at.column), at.left, aligned);
  float y[kPack], mask[kPack];
  if (dropout.on()) dropout.row_masks(first_row + at.row, columns, at.column, mask);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    y[i] = dropout.on() ? __fmul_rn(sum[i], mask[i]) : sum[i];
    if (adds) y[i] = __fadd_rn(old[i], y[i]);
    if (before.data != nullptr) y[i] *= gelu_slope<T>(x[i]);
  }
  store_pack(gradient.at(at.row, at.column), at.left, aligned, y);
}

template <class G>
__global__ void __launch_bounds__(kPlaceThreads)
    finish_gradient_kernel(Rows<const float> matmul, std::int64_t rows, std::int64_t columns, Rows<G> gradient,
                           bool adds, bool aligned) {
  const Place at(rows, columns);
  if (at.left <= 0) return;
  const StoredPack<float> sum = load_pack(matmul.at(at.row, at.column), at.left, aligned);
  write_gradient(gradient.at(at.row, at.column), at.left, aligned, adds, sum);
}

}  // namespace

void finish_linear(cudaStream_t stream, const FinishRows& r, const ConstView& bias, const ConstView& residual,
                   const View& output, const Dropout& dropout) {
  const bool aligned = is_aligned(r.matmul) && is_aligned(bias.data) && is_aligned(residual) && is_aligned(output);
  with_float_type(output.dtype, [&]<class T>() {
    launch(stream, blocks_of_places(r.rows, r.columns), dim3(kPlaceThreads), 0, finish_linear_kernel<T>,
           rows_of<float>(r.matmul), r.first_row, r.rows, r.columns, static_cast<const T*>(bias.data),
           rows_of<T>(residual), rows_of<T>(output), DropoutSource(dropout), aligned);
  });
}

void finish_input_gradient(cudaStream_t stream, const FinishRows& r, const ConstView& before,
                           const GradientView& gradient, const Dropout& dropout) {
  const bool aligned = is_aligned(r.matmul) && is_aligned(before) && is_aligned(gradient.view);
  with_float_type(gradient.view.dtype, [&]<class T>() {
    launch(stream, blocks_of_places(r.rows, r.columns), dim3(kPlaceThreads), 0, finish_input_kernel<T>,
           rows_of<float>(r.matmul), r.first_row, r.rows, r.columns, rows_of<T>(before), rows_of<T>(gradient.view),
           DropoutSource(dropout), gradient.adds, aligned);
  });
}

void finish_gradient(cudaStream_t stream, const FinishRows& r, const GradientView& gradient) {
  const bool aligned = is_aligned(r.matmul) && is_aligned(gradient.view);
  with_float_type(gradient.view.dtype, [&]<class G>() {
    launch(stream, blocks_of_places(r.rows, r.columns), dim3(kPlaceThreads), 0, finish_gradient_kernel<G>,
           rows_of<float>(r.matmul), r.rows, r.columns, rows_of<G>(gradient.view), gradient.adds, aligned);
  });
}

}  // namespace tessera
