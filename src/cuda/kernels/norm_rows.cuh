#pragma once
// Rows of a norm's backward, as a block's threads have them: packs of columns, and the sums of columns over rows.

#include "cuda/kernels/packs.cuh"

namespace tessera {

template <class T>
struct BackwardRows {
  Rows<const T> input, output_gradient;
  const T *gain, *bias;
  Rows<T> input_gradient, normalized;
  const float *mean, *rstd;
  float* sums[3];  ///< [groups, width] each: of gain, bias and the input's gradient; null where not wanted
  int tokens, group;
  std::int64_t width;
  float gain_offset;
  bool adds;
  unsigned* largest[2];  ///< of normalized and input_gradient
};

constexpr int kMostWarps = 16;
template <int Packs>
constexpr int kWarpsOf = Packs == 1 ? 12 : kMostWarps;  ///< two blocks of 12 fit a multiprocessor's registers
/// Whether a block may walk several rows at once. Otherwise it is always a full one, because known distances between a
/// thread's packs cost no registers.
template <int Packs>
constexpr bool kSharesBlock = Packs <= 2;

/// Returns the column of a thread's p-th pack.
template <int Packs>
__device__ __forceinline__ int column_of(int p) {
  const unsigned threads = kSharesBlock<Packs> ? blockDim.x : kWarpsOf<Packs> * 32;
  return static_cast<int>((static_cast<unsigned>(p) * threads + threadIdx.x) * kPack);
}

/// A thread's values of a row, a pack of columns.
template <class T, bool Whole>
struct RowPack {
  StoredPack<T> input, output_gradient;

  __device__ __forceinline__ void load(const BackwardRows<T>& a, int row, int column, int left) {
    input = load_pack<Whole>(a.input.at(row, column), left);
    output_gradient = load_pack<Whole>(a.output_gradient.at(row, column), left);
  }
};

/// The values that all rows share.
template <class T, bool Whole>
struct ColumnPack {
  StoredPack<T> gain, bias;

  __device__ __forceinline__ void load(const BackwardRows<T>& a, int column, int left) {
    gain = load_pack<Whole>(a.gain + column, left);
    bias = load_pack<Whole>(a.bias + column, a.bias != nullptr ? left : 0);
  }
};

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

/// Adds up the block's rows y = 0, 1, ... one after the other. `shared`: `Sums` times ColumnSlots.
template <class T, int Packs, int Sums>
__device__ __forceinline__ void write_sums(const BackwardRows<T>& a, float* shared,
                                           const float (&sums)[Sums][Packs][kPack]) {
  const ColumnSlots slots(blockDim.x * Packs);
  for (unsigned turn = 0; turn < blockDim.y; ++turn) {
    if (threadIdx.y == turn) {
#pragma unroll
      for (int p = 0; p < Packs; ++p) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
#pragma unroll
          for (int s = 0; s < Sums; ++s) {
            float& slot = shared[s * slots.count() + slots.at(column_of<Packs>(p) + i)];
            slot = turn == 0 ? sums[s][p][i] : slot + sums[s][p][i];
          }
        }
      }
    }
    __syncthreads();
  }
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (std::int64_t c = thread; c < a.width; c += blockDim.x * blockDim.y) {
#pragma unroll
    for (int s = 0; s < Sums; ++s) {
      if (a.sums[s] == nullptr) continue;
      a.sums[s][std::int64_t{blockIdx.x} * a.width + c] = shared[s * slots.count() + slots.at(c)];
    }
  }
}

/// The same if blockDim.y is 1: a thread's sums are complete.
template <bool Whole, class T, int Packs, int Sums>
__device__ __forceinline__ void write_own_sums(const BackwardRows<T>& a, const float (&sums)[Sums][Packs][kPack]) {
  const bool aligned = Whole || a.width % (16 / sizeof(float)) == 0;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const std::int64_t column = column_of<Packs>(p), at = std::int64_t{blockIdx.x} * a.width + column;
#pragma unroll
    for (int s = 0; s < Sums; ++s) {
      if (a.sums[s] != nullptr) store_pack<Whole>(a.sums[s] + at, a.width - column, aligned, sums[s][p]);
    }
  }
}

}  // namespace tessera
