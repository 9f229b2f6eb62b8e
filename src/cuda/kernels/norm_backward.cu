// Backward of layer norm and RMS norm. A block walks a group of rows and keeps its columns' gradients of gain and bias
// in registers. The current row is kept there too, if it is not too wide. A second kernel sums the groups in order.

#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/norm_width.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

template <class T>
struct BackwardRows {
  Rows<const T> input, output_gradient;
  const T *gain, *bias;
  Rows<T> input_gradient, normalized;
  const float *mean, *rstd;
  float *gain_sums, *bias_sums;  ///< [groups, width]
  int tokens, group;
  std::int64_t width;
  bool adds, aligned;
};

constexpr int kMostWarps = 16;
template <int Packs>
constexpr int kWarpsOf = Packs == 1 ? 12 : kMostWarps;  ///< two blocks of 12 fit a multiprocessor's registers
/// Whether registers suffice for the row and the sums. Otherwise it is read twice, the second time from a cache, and
/// always by a full block. Known distances between a thread's packs cost no registers.
template <int Packs>
constexpr bool kHoldsRow = Packs <= 2;

/// Returns the column of a thread's p-th pack.
template <int Packs>
__device__ __forceinline__ std::int64_t column_of(int p) {
  const unsigned threads = kHoldsRow<Packs> ? blockDim.x : kWarpsOf<Packs> * 32;
  return (static_cast<unsigned>(p) * threads + threadIdx.x) * kPack;
}

/// Loads a thread's pack of a row: d output, h = xhat and w = gain * d output. All three loads are under way before the
/// first is waited for: few warps are on a multiprocessor.
template <class T>
__device__ __forceinline__ void load_terms(const BackwardRows<T>& a, std::int64_t row, std::int64_t column,
                                           std::int64_t left, float mean, float rstd, float (&upstream)[kPack],
                                           float (&h)[kPack], float (&w)[kPack]) {
  const T *input = a.input.at(row, column), *output_gradient = a.output_gradient.at(row, column);
  if (a.aligned && left >= kPack) {
    const StoredPack<T> x = load_stored(input), dy = load_stored(output_gradient), gain = load_stored(a.gain + column);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      h[i] = to_float(x.element[i]), upstream[i] = to_float(dy.element[i]), w[i] = to_float(gain.element[i]);
    }
  } else {
    load_pack(input, left, false, h);
    load_pack(output_gradient, left, false, upstream);
    load_pack(a.gain + column, left, false, w);
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    h[i] = __fmul_rn(__fsub_rn(h[i], mean), rstd);
    w[i] = upstream[i] * w[i];
  }
}

/// Computes gain * h (+ bias), with forward's bits.
template <class T>
__device__ __forceinline__ void store_normalized(const BackwardRows<T>& a, std::int64_t row, std::int64_t column,
                                                 std::int64_t left, const float (&h)[kPack]) {
  float gain[kPack], y[kPack];
  load_pack(a.gain + column, left, a.aligned, gain);
  if (a.bias != nullptr) load_pack(a.bias + column, left, a.aligned, y);
#pragma unroll
  for (int i = 0; i < kPack; ++i) y[i] = a.bias != nullptr ? __fmaf_rn(h[i], gain[i], y[i]) : __fmul_rn(h[i], gain[i]);
  store_pack(a.normalized.at(row, column), left, a.aligned, y);
}

/// The slots of columns' sums in shared memory. Neither threads that write eight neighbours there nor threads that read
/// one each have bank conflicts.
struct ColumnSlots {
  int stride;  ///< threads of a row x packs + 4: 4 more than a multiple of 32
  __host__ __device__ explicit ColumnSlots(unsigned packs) : stride(static_cast<int>(packs) + 4) {}
  __host__ __device__ int count() const { return kPack * stride; }
  __device__ int at(std::int64_t column) const {
    const auto c = static_cast<int>(column);
    return c % kPack * stride + c / kPack;
  }
};

/// Adds up the block's rows y = 0, 1, ... one after the other. `sums`: twice ColumnSlots.
template <class T, int Packs>
__device__ __forceinline__ void write_sums(const BackwardRows<T>& a, float* sums, const float (&gain_sum)[Packs][kPack],
                                           const float (&bias_sum)[Packs][kPack]) {
  const ColumnSlots slots(blockDim.x * Packs);
  float* const more = sums + slots.count();
  for (unsigned turn = 0; turn < blockDim.y; ++turn) {
    if (threadIdx.y == turn) {
#pragma unroll
      for (int p = 0; p < Packs; ++p) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          const int c = slots.at(column_of<Packs>(p) + i);
          sums[c] = turn == 0 ? gain_sum[p][i] : sums[c] + gain_sum[p][i];
          more[c] = turn == 0 ? bias_sum[p][i] : more[c] + bias_sum[p][i];
        }
      }
    }
    __syncthreads();
  }
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (std::int64_t c = thread; c < a.width; c += blockDim.x * blockDim.y) {
    a.gain_sums[std::int64_t{blockIdx.x} * a.width + c] = sums[slots.at(c)];
    if (a.bias_sums != nullptr) a.bias_sums[std::int64_t{blockIdx.x} * a.width + c] = more[slots.at(c)];
  }
}

/// The same if blockDim.y is 1: a thread's sums are complete.
template <class T, int Packs>
__device__ __forceinline__ void write_own_sums(const BackwardRows<T>& a, const float (&gain_sum)[Packs][kPack],
                                               const float (&bias_sum)[Packs][kPack]) {
  const bool aligned = a.width % (16 / sizeof(float)) == 0;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const std::int64_t column = column_of<Packs>(p), at = std::int64_t{blockIdx.x} * a.width + column;
    store_pack(a.gain_sums + at, a.width - column, aligned, gain_sum[p]);
    if (a.bias_sums != nullptr) store_pack(a.bias_sums + at, a.width - column, aligned, bias_sum[p]);
  }
}

/// With h = xhat, w = gain * dy: dx = rstd (w - mean(w) - h mean(w h)); RMS norm lacks the mean(w) term.
/// Thread (x, y): x has `Packs` packs of columns, y every blockDim.y-th row of the block's group.
template <class T, int Packs>
__global__ void __launch_bounds__(kWarpsOf<Packs> * 32, Packs == 1 ? 2 : 1)
    norm_backward_kernel(const BackwardRows<T> a) {
  __shared__ __align__(16) float partial[2 * kMostWarps * 2];
  const int warp = static_cast<int>((threadIdx.y * blockDim.x + threadIdx.x) / 32);
  const int row_warps = static_cast<int>(blockDim.x) / 32, first_warp = static_cast<int>(threadIdx.y) * row_warps;
  const int begin = static_cast<int>(blockIdx.x) * a.group;
  const int end = begin + a.group < a.tokens ? begin + a.group : a.tokens;
  constexpr int kHeld = kHoldsRow<Packs> ? Packs : 1;
  float gain_sum[Packs][kPack] = {}, bias_sum[Packs][kPack] = {};
  int parity = 0;
  for (int first = begin; first < end; first += static_cast<int>(blockDim.y), parity ^= 1) {
    const int row = first + static_cast<int>(threadIdx.y);
    const bool inside = row < end;  // all threads of a block come to the barrier
    const float mean = inside && a.mean != nullptr ? a.mean[row] : 0.0f, rstd = inside ? a.rstd[row] : 0.0f;
    float h[kHeld][kPack], w[kHeld][kPack], upstream[kPack];
    float sum = 0, projected = 0;
    // The accumulated gradient is loaded with the rest, if there are registers for it.
    const bool early =
        Packs == 1 && sizeof(T) == 2 && a.adds && a.aligned && inside && column_of<Packs>(0) + kPack <= a.width;
    Bytes16 before{};
    if (early) before = load16(a.input_gradient.at(row, column_of<Packs>(0)));
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t column = column_of<Packs>(p), left = inside ? a.width - column : 0;
      const int held = p % kHeld;
      load_terms(a, row, column, left, mean, rstd, upstream, h[held], w[held]);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        sum += w[held][i];
        projected = fmaf(w[held][i], h[held][i], projected);
        gain_sum[p][i] = fmaf(upstream[i], h[held][i], gain_sum[p][i]);
        bias_sum[p][i] += upstream[i];
      }
    }
    sum = warp_sum(sum), projected = warp_sum(projected);
    float* slots = partial + parity * 2 * kMostWarps;  // two sets in turn: one barrier a row is enough
    if (threadIdx.x % 32 == 0) slots[2 * warp] = sum, slots[2 * warp + 1] = projected;
    __syncthreads();
    sum = 0, projected = 0;
    for (int i = 0; i < row_warps; ++i) {
      sum += slots[2 * (first_warp + i)], projected += slots[2 * (first_warp + i) + 1];
    }
    const auto count = static_cast<float>(a.width);
    const float mean_w = a.mean != nullptr ? sum / count : 0.0f, mean_wh = projected / count;
#pragma unroll(kHeld)
    for (int p = 0; p < Packs; ++p) {
      const std::int64_t column = column_of<Packs>(p), left = inside ? a.width - column : 0;
      if (left <= 0) break;
      const int held = p % kHeld;
      if constexpr (!kHoldsRow<Packs>) load_terms(a, row, column, left, mean, rstd, upstream, h[held], w[held]);
      float dx[kPack];
      if (early) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          if constexpr (sizeof(T) == 2) {
            T element;
            element.bits = static_cast<std::uint16_t>(before.word[i / 2] >> (i % 2 * 16));
            dx[i] = to_float(element);
          }
        }
      } else if (a.adds) {
        load_pack(a.input_gradient.at(row, column), left, a.aligned, dx);
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float inner = fmaf(-h[held][i], mean_wh, w[held][i] - mean_w);
        dx[i] = a.adds ? fmaf(inner, rstd, dx[i]) : inner * rstd;
      }
      store_pack(a.input_gradient.at(row, column), left, a.aligned, dx);
      if (a.normalized.data != nullptr) store_normalized(a, row, column, left, h[held]);
    }
  }
  if constexpr (kHoldsRow<Packs>) {
    write_sums<T, Packs>(a, dynamic_shared<float>(), gain_sum, bias_sum);
  } else {
    write_own_sums<T, Packs>(a, gain_sum, bias_sum);
  }
}

template <class T, int Packs>
void launch_backward(cudaStream_t stream, const BackwardRows<T>& rows, std::int64_t groups) {
  const std::int64_t needed = round_up(ceil_div(rows.width, Packs * kPack), 32);
  const auto x = kHoldsRow<Packs> ? static_cast<unsigned>(needed) : kWarpsOf<Packs> * 32u;
  const unsigned y = kHoldsRow<Packs> ? std::max(1u, std::min(kWarpsOf<Packs> * 32 / x, 8u)) : 1;
  const auto slots = static_cast<std::size_t>(ColumnSlots(x * Packs).count());
  launch(stream, blocks_for(groups, 1), dim3(x, y), kHoldsRow<Packs> ? 2 * slots * sizeof(float) : 0,
         norm_backward_kernel<T, Packs>, rows);
}

}  // namespace

void CudaKernels::norm_backward(Stream& stream, const NormBackward& a) {
  check_norm_width(a.width);
  TESSERA_ASSERT(a.tokens < std::int64_t{1} << 30, "a norm of {} rows in one launch", a.tokens);
  ScratchLayout scratch(a.scratch, gpu_kernel_needs().norm_backward(a.tokens, a.width));
  const CudaNormBackwardLayout layout(scratch, a.tokens, a.width);
  with_float_type(a.input.dtype, [&]<class T>() {
    const bool aligned = is_aligned(a.input) && is_aligned(a.output_gradient) && is_aligned(a.input_gradient) &&
                         is_aligned(a.gain.data) && is_aligned(a.bias.data) && is_aligned(a.normalized);
    const BackwardRows<T> rows{rows_of<T>(a.input),
                               rows_of<T>(a.output_gradient),
                               static_cast<const T*>(a.gain.data),
                               static_cast<const T*>(a.bias.data),
                               rows_of<T>(a.input_gradient),
                               rows_of<T>(a.normalized),
                               a.subtract_mean ? a.mean : nullptr,
                               a.reciprocal_deviation,
                               layout.gain_sums,
                               a.bias_gradient ? layout.bias_sums : nullptr,
                               static_cast<int>(a.tokens),
                               static_cast<int>(layout.groups[0].size()),
                               a.width,
                               a.input_adds,
                               aligned};
    const std::int64_t packs = ceil_div(a.width, kPack), groups = layout.groups.count();
    const cudaStream_t s = cuda_stream(stream);
    if (packs <= 256) return launch_backward<T, 1>(s, rows, groups);
    if (packs <= 1024) return launch_backward<T, 2>(s, rows, groups);
    launch_backward<T, 4>(s, rows, groups);
  });
  const ColumnSum bias = a.bias_gradient ? ColumnSum{layout.bias_sums, a.bias_gradient} : ColumnSum{};
  sum_columns(cuda_stream(stream), layout.groups.count(), a.width, {layout.gain_sums, a.gain_gradient}, bias);
}

}  // namespace tessera
