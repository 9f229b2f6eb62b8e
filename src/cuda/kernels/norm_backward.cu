// Backward of layer norm and RMS norm. A block walks a group of rows and keeps its columns' gradients of gain and bias
// in registers, and sums of the input's gradient where they are wanted. If a row is not too wide, it is kept there too,
// and the next one is under way while it is worked on. A second kernel sums the groups in order.

#include "cuda/kernels/column_sums.hpp"
#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/norm_rows.cuh"
#include "cuda/kernels/norm_width.hpp"
#include "cuda/kernels/shared_memory.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

/// Whether registers suffice for a row, the next one, gain, bias and the sums. Otherwise a row is read twice, the
/// second time from a cache, as it is with an offset of the gain, which takes the last registers.
template <class T, int Packs>
constexpr bool kReadsAhead = sizeof(T) == 2 && Packs <= 2;

// Other GPUs than those of compute capability 9.0 have their own registers to save, so that nothing spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kSlotsAtOnce = 2;  ///< of warps' sums that are read at once
#else
constexpr int kSlotsAtOnce = 4;
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kBlocksOfThree = 1;  ///< of a multiprocessor, where a thread has three sums
constexpr bool kBiasLast = true;   ///< a bias that is not kept is read when the gradient has been stored
#else
constexpr int kBlocksOfThree = 2;
constexpr bool kBiasLast = false;
#endif

/// With h = xhat, w = (offset + gain) * dy: dx = rstd (w - mean(w) - h mean(w h)); RMS norm lacks the mean(w) term.
/// Thread (x, y): x has `Packs` packs of columns, y every blockDim.y-th row of the block's group. `Sums`: the first of
/// BackwardRows::sums, 2 or all 3. A kernel that `Measures` raises the largest magnitudes of what it stores.
template <class T, int Packs, bool Whole, int Sums, bool Ahead, bool Measures>
__global__ void __launch_bounds__(kWarpsOf<Packs> * 32, Packs == 1 && Whole ? (Sums == 3 ? kBlocksOfThree : 2) : 1)
    norm_backward_kernel(const BackwardRows<T> a) {
  __shared__ __align__(16) float partial[2 * kMostWarps * 2];
  // Largest magnitudes of normalized rows and of gradients, a slot for each thread: registers are few.
  __shared__ __align__(16) unsigned most[2][kWarpsOf<Packs> * 32];
  const int y = kSharesBlock<Packs> ? static_cast<int>(threadIdx.y) : 0;
  const int rows = kSharesBlock<Packs> ? static_cast<int>(blockDim.y) : 1;  // of the block at a time
  const int row_warps = kSharesBlock<Packs> ? static_cast<int>(blockDim.x) / 32 : kMostWarps;
  const int first_warp = y * row_warps, warp = first_warp + static_cast<int>(threadIdx.x) / 32;
  const int begin = static_cast<int>(blockIdx.x) * a.group;
  const int end = begin + a.group < a.tokens ? begin + a.group : a.tokens;
  constexpr int kHeld = Ahead ? Packs : 1;
  const auto left_of = [&](int row, int p) { return row < end ? static_cast<int>(a.width) - column_of<Packs>(p) : 0; };
  ColumnPack<T, Whole> columns[kHeld] = {};
  RowPack<T, Whole> next[kHeld] = {};
  float next_mean = 0, next_rstd = 0;
  const auto load_next = [&](int row) {
    const bool inside = row < end;
    next_mean = inside && a.mean != nullptr ? a.mean[row] : 0.0f, next_rstd = inside ? a.rstd[row] : 0.0f;
#pragma unroll
    for (int p = 0; Ahead && p < Packs; ++p) next[p].load(a, row, column_of<Packs>(p), left_of(row, p));
  };
  if (Ahead) load_next(begin + y);
#pragma unroll
  for (int p = 0; Ahead && p < Packs; ++p) columns[p].load(a, column_of<Packs>(p), left_of(begin, p));
  const auto gain_of = [&](int held, int i) {
    return Ahead ? columns[held].gain[i] : __fadd_rn(a.gain_offset, columns[held].gain[i]);
  };
  const auto raise = [&](int which, unsigned found) {
    unsigned& slot = most[which][warp * 32 + threadIdx.x % 32];
    slot = max(slot, found);
  };
  if constexpr (Measures) most[0][warp * 32 + threadIdx.x % 32] = most[1][warp * 32 + threadIdx.x % 32] = 0;
  float sums[Sums][Packs][kPack] = {};
  int parity = 0;
  for (int first = begin; first < end; first += rows, parity ^= 1) {
    const int row = first + y;  // may be behind the end: all threads of a block come to the barrier
    if (!Ahead) load_next(row);
    const float mean = next_mean, rstd = next_rstd;
    RowPack<T, Whole> now[kHeld];
    StoredPack<T> before[kHeld];  // the gradient that is added to
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      now[p] = next[p];
      const bool early = Ahead && a.adds;
      before[p] = load_pack<Whole, T>(a.input_gradient.at(row, column_of<Packs>(p)), early ? left_of(row, p) : 0);
    }
    if (Ahead) load_next(row + rows);
    float sum = 0, projected = 0;
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int held = p % kHeld;
      if constexpr (!Ahead) {
        now[0].load(a, row, column_of<Packs>(p), left_of(row, p));
        columns[0].load(a, column_of<Packs>(p), left_of(row, p));
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float h = __fmul_rn(__fsub_rn(now[held].input[i], mean), rstd), upstream = now[held].output_gradient[i];
        const float w = __fmul_rn(upstream, gain_of(held, i));
        sum = __fadd_rn(sum, w);
        projected = fmaf(w, h, projected);
        sums[0][p][i] = fmaf(upstream, h, sums[0][p][i]);
        sums[1][p][i] += upstream;
      }
      if constexpr (Ahead) {  // the sums need these registers
        pack_again(now[p].input), pack_again(now[p].output_gradient), pack_again(columns[p].gain),
            pack_again(columns[p].bias);
      }
    }
    sum = warp_sum(sum), projected = warp_sum(projected);
    float* slots = partial + parity * 2 * kMostWarps;  // two sets in turn: one barrier per row is enough
    if (threadIdx.x % 32 == 0) slots[2 * warp] = sum, slots[2 * warp + 1] = projected;
    __syncthreads();
    sum = 0, projected = 0;
#pragma unroll(kSlotsAtOnce)
    for (int i = 0; i < row_warps; ++i) {
      sum += slots[2 * (first_warp + i)], projected += slots[2 * (first_warp + i) + 1];
    }
    const auto count = static_cast<float>(a.width);
    const float mean_w = a.mean != nullptr ? sum / count : 0.0f, mean_wh = projected / count;
#pragma unroll(kHeld)
    for (int p = 0; p < Packs; ++p) {
      const int column = column_of<Packs>(p), left = left_of(row, p);
      if (left <= 0) break;
      const int held = p % kHeld;
      T* const to = a.input_gradient.at(row, column);
      if constexpr (!Ahead) {
        now[0].load(a, row, column, left), columns[0].load(a, column, left);  // a bias that is not used is not read
        before[0] = load_pack<Whole, T>(to, a.adds ? left : 0);
      }
      float dx[kPack], normalized[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float gain = gain_of(held, i), h = __fmul_rn(__fsub_rn(now[held].input[i], mean), rstd);
        dx[i] = fmaf(-h, mean_wh, __fsub_rn(__fmul_rn(now[held].output_gradient[i], gain), mean_w));
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) dx[i] = a.adds ? fmaf(dx[i], rstd, before[held][i]) : __fmul_rn(dx[i], rstd);
      const StoredPack<T> stored = store_pack<Whole>(to, left, Whole, dx);
      if constexpr (Measures) raise(1, most_of<Whole>(stored, left));
#pragma unroll
      for (int i = 0; Sums == 3 && i < kPack; ++i) sums[Sums - 1][p][i] += stored[i];
      if constexpr (!Ahead && kBiasLast) columns[0].load(a, column, left);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {  // forward's bits, when dx has left its registers
        const float gain = gain_of(held, i), h = __fmul_rn(__fsub_rn(now[held].input[i], mean), rstd);
        normalized[i] = a.bias != nullptr ? __fmaf_rn(h, gain, columns[held].bias[i]) : __fmul_rn(h, gain);
      }
      if (a.normalized.data != nullptr) {
        const StoredPack<T> again = store_pack<Whole>(a.normalized.at(row, column), left, Whole, normalized);
        if constexpr (Measures) raise(0, most_of<Whole>(again, left));
      }
    }
  }
  if constexpr (Measures) {  // blocks are few, so each warp raises them by itself
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const unsigned of_warp = warp_most(most[which][warp * 32 + threadIdx.x % 32]);
      if (threadIdx.x % 32 == 0 && a.largest[which] != nullptr) atomicMax(a.largest[which], in_fp32<T>(of_warp));
    }
  }
  if constexpr (kSharesBlock<Packs>) {
    write_sums(a, dynamic_shared<float>(), sums);
  } else {
    write_own_sums<Whole>(a, sums);
  }
}

template <int Packs, int Sums, class T>
void launch_backward(cudaStream_t stream, const BackwardRows<T>& rows, std::int64_t groups, bool whole) {
  const std::int64_t needed = round_up(ceil_div(rows.width, Packs * kPack), 32);
  const auto x = kSharesBlock<Packs> ? static_cast<unsigned>(needed) : kWarpsOf<Packs> * 32u;
  const unsigned y = kSharesBlock<Packs> ? std::max(1u, std::min(kWarpsOf<Packs> * 32 / x, 8u)) : 1;
  constexpr std::size_t most_slots = kPack * (kWarpsOf<Packs> * 32 * Packs + 4);  // of ColumnSlots
  static_assert(!kSharesBlock<Packs> ||
                (Sums * most_slots + 4 * kMostWarps + 2 * kWarpsOf<Packs> * 32) * sizeof(float) <=
                    kSharedBytesEverywhere);
  const auto slots = static_cast<std::size_t>(ColumnSlots(x * Packs).count());
  const auto with = [&]<bool Measures>() {
    const auto kernel = !whole ? norm_backward_kernel<T, Packs, false, Sums, false, Measures>
                        : rows.gain_offset != 0
                            ? norm_backward_kernel<T, Packs, true, Sums, false, Measures>
                            : norm_backward_kernel<T, Packs, true, Sums, kReadsAhead<T, Packs>, Measures>;
    launch(stream, blocks_for(groups, 1), dim3(x, y), kSharesBlock<Packs> ? Sums * slots * sizeof(float) : 0, kernel,
           rows);
  };
  const bool measures = rows.largest[0] != nullptr || rows.largest[1] != nullptr;
  measures ? with.template operator()<true>() : with.template operator()<false>();
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const NormBackward& a) {
  check_norm_width(a.width);
  TESSERA_ASSERT(a.tokens < std::int64_t{1} << 30, "a norm of {} rows in one launch", a.tokens);
  ScratchLayout scratch(a.scratch, gpu_kernel_needs().norm_backward(a.tokens, a.width));
  const CudaNormBackwardLayout layout(scratch, a.tokens, a.width);
  const std::int64_t rows_of_sums = gpu_kernel_needs().gradient_sum_rows(a.tokens, a.width);
  TESSERA_ASSERT(!a.input_gradient_sums || a.input_gradient_sums.rows == rows_of_sums,
                 "{} rows of sums of the input's gradient, {} are made", a.input_gradient_sums.rows, rows_of_sums);
  with_float_type(a.input.dtype, [&]<class T>() {
    const bool whole = are_whole<T>(a.width) && is_aligned(a.input) && is_aligned(a.output_gradient) &&
                       is_aligned(a.input_gradient) && is_aligned(a.gain.data) && is_aligned(a.bias.data) &&
                       is_aligned(a.normalized);
    const BackwardRows<T> rows{
        rows_of<T>(a.input),
        rows_of<T>(a.output_gradient),
        static_cast<const T*>(a.gain.data),
        static_cast<const T*>(a.bias.data),
        rows_of<T>(a.input_gradient),
        rows_of<T>(a.normalized),
        a.subtract_mean ? a.mean : nullptr,
        a.reciprocal_deviation,
        {layout.gain_sums, a.bias_gradient ? layout.bias_sums : nullptr, a.input_gradient_sums.data},
        static_cast<int>(a.tokens),
        static_cast<int>(layout.groups[0].size()),
        a.width,
        a.gain_offset,
        a.input_adds,
        {bits_of(a.normalized_largest), bits_of(a.gradient_largest)}};
    const std::int64_t packs = ceil_div(a.width, kPack), groups = layout.groups.count();
    if (a.input_gradient_sums) return launch_backward<1, 3>(stream, rows, groups, whole);
    if (packs <= 256) return launch_backward<1, 2>(stream, rows, groups, whole);
    if (packs <= 1024) return launch_backward<2, 2>(stream, rows, groups, whole);
    launch_backward<4, 2>(stream, rows, groups, whole);
  });
  const ColumnSum gain{layout.gain_sums, a.gain_gradient}, bias{layout.bias_sums, a.bias_gradient};
  if (a.gain_gradient) {
    sum_columns(stream, layout.groups.count(), a.width, gain, a.bias_gradient ? bias : ColumnSum{});
  } else if (a.bias_gradient) {
    sum_columns(stream, layout.groups.count(), a.width, bias);
  }
}

}  // namespace tessera
