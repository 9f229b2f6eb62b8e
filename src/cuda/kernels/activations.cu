// GELU, dropout and rotary positions: matrices element by element.

#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/dropout_mask.cuh"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

// Kernels that `Measure` raise the largest magnitudes of what they store. Threads without a place have zeros then.

template <class T, bool Measures>
__global__ void __launch_bounds__(kPlaceThreads) gelu_kernel(Rows<const T> input, Rows<T> output, std::int64_t rows,
                                                             std::int64_t columns, bool aligned, unsigned* largest) {
  const Place at(rows, columns);
  if (!Measures && at.left <= 0) return;
  const StoredPack<T> x = load_pack(input.at(at.row, at.column), at.left, aligned);
  float y[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) y[i] = gelu_of<T>(x[i]);
  const StoredPack<T> stored = store_pack(output.at(at.row, at.column), at.left, aligned, y);
  if constexpr (Measures) raise_largest<T, kPlaceThreads>(largest, most_of(stored));
}

template <class From, class To>
__global__ void __launch_bounds__(kPlaceThreads)
    dropout_kernel(Rows<const From> input, Rows<To> output, std::int64_t rows, std::int64_t columns,
                   DropoutSource dropout, bool aligned) {
  const Place at(rows, columns);
  if (at.left <= 0) return;
  const StoredPack<From> x = load_pack(input.at(at.row, at.column), at.left, aligned);
  float mask[kPack], y[kPack];
  dropout.row_masks(at.row, columns, at.column, mask);
#pragma unroll
  for (int i = 0; i < kPack; ++i) y[i] = __fmul_rn(x[i], mask[i]);
  store_pack(output.at(at.row, at.column), at.left, aligned, y);
}

/// Columns here are the first halves of all heads side by side: heads * half of them.
template <class T>
__global__ void __launch_bounds__(kPlaceThreads)
    rotary_kernel(Rows<const T> input, Rows<T> output, const float* table, const std::int32_t* positions,
                  std::int64_t rows, std::int64_t heads, std::int64_t half, std::int64_t sequence, float direction,
                  bool whole_packs) {
  const std::int64_t packs = (half + kPack - 1) / kPack;
  const Place at(rows, heads * packs * kPack);
  if (at.left <= 0) return;
  const std::int64_t pack = at.column / kPack, head = pack / packs, first = pack % packs * kPack;
  const std::int64_t low = head * 2 * half + first, left = half - first;
  const std::int64_t position = positions != nullptr ? positions[at.row] : at.row % sequence;
  const float* angles = table + (position * half + first) * 2;
  const StoredPack<T> x = load_pack(input.at(at.row, low), left, whole_packs);
  const StoredPack<T> y = load_pack(input.at(at.row, low + half), left, whole_packs);
  const StoredPack<float> angle[2] = {
      load_pack(angles, 2 * left, whole_packs),  // cosine and sine of a pair side by side
      load_pack(angles + kPack, 2 * left - kPack, whole_packs)};
  float rotated[2][kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const StoredPack<float>& pairs = angle[i / (kPack / 2)];
    const float cosine = pairs[2 * i % kPack], sine = direction * pairs[2 * i % kPack + 1];
    rotated[0][i] = x[i] * cosine - y[i] * sine;
    rotated[1][i] = y[i] * cosine + x[i] * sine;
  }
  store_pack(output.at(at.row, low), left, whole_packs, rotated[0]);
  store_pack(output.at(at.row, low + half), left, whole_packs, rotated[1]);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const GeluForward& a) {
  with_float_type(a.input.dtype, [&]<class T>() {
    launch(stream, blocks_of_places(a.rows, a.columns), dim3(kPlaceThreads), 0,
           a.largest != nullptr ? gelu_kernel<T, true> : gelu_kernel<T, false>, rows_of<T>(a.input),
           rows_of<T>(a.output), a.rows, a.columns, is_aligned(a.input) && is_aligned(a.output), bits_of(a.largest));
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const ApplyDropout& a) {
  const bool aligned = is_aligned(a.input) && is_aligned(a.output);
  with_float_type(a.input.dtype, [&]<class From>() {
    with_float_type(a.output.dtype, [&]<class To>() {
      launch(stream, blocks_of_places(a.rows, a.columns), dim3(kPlaceThreads), 0, dropout_kernel<From, To>,
             rows_of<From>(a.input), rows_of<To>(a.output), a.rows, a.columns, DropoutSource(a.dropout), aligned);
    });
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const Rotate& a) {
  const std::int64_t rows = a.batch * a.sequence, half = a.head_width / 2;
  const bool whole_packs = is_aligned(a.input) && is_aligned(a.output) && is_aligned(a.table) && half % kPack == 0;
  with_float_type(a.input.dtype, [&]<class T>() {
    launch(stream, blocks_of_places(rows, a.heads * round_up(half, kPack)), dim3(kPlaceThreads), 0, rotary_kernel<T>,
           rows_of<T>(a.input), rows_of<T>(a.output), a.table, a.positions, rows, a.heads, half, a.sequence,
           a.inverse ? -1.0f : 1.0f, whole_packs);
  });
}

}  // namespace tessera
