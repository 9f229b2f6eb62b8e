// Forward of layer norm and RMS norm (Ba et al. 2016; Zhang & Sennrich 2019): a warp or a block keeps a row in
// registers. It waits for memory once: the row, gain and bias (or a residual) are under way together.

#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/norm_width.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kForwardThreads = 256;

/// Sums x over the `Threads` neighbours that share a row: 32 (a warp), or all 256 of the block.
template <int Threads>
__device__ float row_sum(float x, float* partial) {
  x = warp_sum(x);
  if constexpr (Threads == 32) {
    return x;
  } else {
    __syncthreads();  // the last sum's values are no longer needed
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < Threads / 32; ++i) sum += partial[i];
    return sum;
  }
}

template <class T>
struct ForwardRows {
  Rows<const T> input;
  const T* gain;
  Rows<const T> addend;  ///< bias, the same for each row, or residual
  Rows<T> output;
  float *mean, *rstd;
  std::int64_t tokens, width;
  float epsilon, gain_offset;
  bool subtract_mean;
  unsigned* largest;
};

/// Loads a thread's packs of a row, zeros behind its end.
template <bool Whole, int Packs, class T, class Column>
__device__ __forceinline__ void load_row(StoredPack<T> (&x)[Packs], const T* row, std::int64_t width,
                                         Column column_of) {
#pragma unroll
  for (int p = 0; p < Packs; ++p) x[p] = load_pack<Whole>(row + column_of(p), width - column_of(p));
}

/// Threads of a row hold `Packs` packs each. A kernel that `Measures` raises the largest magnitude of the output, for
/// which all threads of a block meet: those behind the last row have an empty one.
template <class T, int Threads, int Packs, bool Whole, bool Measures>
__global__ void __launch_bounds__(kForwardThreads, Whole && sizeof(T) == 2 ? 2 : 1)
    norm_forward_kernel(const ForwardRows<T> a) {
  __shared__ __align__(16) float partial[kForwardThreads / 32];
  const int member = static_cast<int>(threadIdx.x) % Threads;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kForwardThreads / Threads) + threadIdx.x / Threads;
  constexpr bool kMeets = Measures && Threads < kForwardThreads;  // a block has rows to meet for
  if (!kMeets && row >= a.tokens) return;                         // a whole warp, or a whole block
  const std::int64_t width = !kMeets || row < a.tokens ? a.width : 0;
  const auto column_of = [member](int p) { return (std::int64_t{p} * Threads + member) * kPack; };
  StoredPack<T> x[Packs], gain[Packs] = {}, addend[Packs] = {};
  load_row<Whole>(x, a.input.at(row), width, column_of);
  if (a.output.data != nullptr) load_row<Whole>(gain, a.gain, width, column_of);
  if (a.output.data != nullptr && a.addend.data != nullptr) load_row<Whole>(addend, a.addend.at(row), width, column_of);
  const auto count = static_cast<float>(a.width);
  float mean = 0;
  if (a.subtract_mean) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += x[p][i];
    }
    mean = __fdiv_rn(row_sum<Threads>(sum, partial), count);
  }
#pragma unroll
  for (StoredPack<T>& pack : x) pack_again(pack);
  float squares = 0;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const std::int64_t left = width - column_of(p);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float d = i < left ? x[p][i] - mean : 0.0f;
      squares = fmaf(d, d, squares);
    }
  }
  const float variance = __fdiv_rn(row_sum<Threads>(squares, partial), count);
  const float rstd = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(variance, a.epsilon)));
  if (member == 0 && (!kMeets || row < a.tokens)) {
    if (a.subtract_mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  if (a.output.data == nullptr) return;
#pragma unroll
  for (StoredPack<T>& pack : x) pack_again(pack);
  unsigned most = 0;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const std::int64_t left = width - column_of(p);
    if (left <= 0) break;
    float y[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float h = __fmul_rn(__fsub_rn(x[p][i], mean), rstd);
      const float w = __fadd_rn(a.gain_offset, gain[p][i]);
      y[i] = a.addend.data != nullptr ? __fmaf_rn(h, w, addend[p][i]) : __fmul_rn(h, w);
    }
    const StoredPack<T> stored = store_pack<Whole>(a.output.at(row, column_of(p)), left, Whole, y);
    if constexpr (Measures) most = max(most, most_of<Whole>(stored, left));
  }
  if constexpr (Measures) raise_largest<T, kForwardThreads>(a.largest, most);
}

template <class T, int Threads, int Packs, bool Whole = true>
void launch_forward(cudaStream_t stream, const ForwardRows<T>& rows) {
  launch(stream, blocks_for(rows.tokens, kForwardThreads / Threads), dim3(kForwardThreads), 0,
         rows.largest != nullptr ? norm_forward_kernel<T, Threads, Packs, Whole, true>
                                 : norm_forward_kernel<T, Threads, Packs, Whole, false>,
         rows);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const NormForward& a) {
  TESSERA_ASSERT(!a.bias || !a.residual, "a norm with a bias cannot be added to a residual");
  check_norm_width(a.width);
  with_float_type(a.input.dtype, [&]<class T>() {
    const bool whole = are_whole<T>(a.width) && is_aligned(a.input) && is_aligned(a.output) &&
                       is_aligned(a.gain.data) && is_aligned(a.bias.data) && is_aligned(a.residual);
    const ConstView of_every_row{a.bias.data, a.input.dtype, 0};
    const ForwardRows<T> rows{rows_of<T>(a.input),
                              static_cast<const T*>(a.gain.data),
                              rows_of<T>(a.residual ? a.residual : of_every_row),
                              rows_of<T>(a.output),
                              a.mean,
                              a.reciprocal_deviation,
                              a.tokens,
                              a.width,
                              a.epsilon,
                              a.gain_offset,
                              a.subtract_mean,
                              a.output ? bits_of(a.largest) : nullptr};
    const std::int64_t packs = ceil_div(a.width, kPack);
    if (!whole)
      return packs <= 256 ? launch_forward<T, 32, 8, false>(stream, rows)
                          : launch_forward<T, 256, 8, false>(stream, rows);
    if (packs <= 32) return launch_forward<T, 32, 1>(stream, rows);
    if (packs <= 64) return launch_forward<T, 32, 2>(stream, rows);
    if (packs <= 96) return launch_forward<T, 32, 3>(stream, rows);
    if (packs <= 128) return launch_forward<T, 32, 4>(stream, rows);
    if (packs <= 192) return launch_forward<T, 32, 6>(stream, rows);
    if (packs <= 256) return launch_forward<T, 32, 8>(stream, rows);
    if (packs <= 512) return launch_forward<T, 256, 2>(stream, rows);
    if (packs <= 1024) return launch_forward<T, 256, 4>(stream, rows);
    launch_forward<T, 256, 8>(stream, rows);
  });
}

}  // namespace tessera
