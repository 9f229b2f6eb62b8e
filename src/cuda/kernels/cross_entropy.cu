#include "cuda/kernels/cross_entropy.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"
#include "tessera/kernels/arguments/head.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 1024, kWarps = kThreads / 32;  ///< at most

/// e^(x - offset). With 16-bit storage it is the hardware's, and the argument takes one instruction if offset is the
/// same for many x.
template <class T>
__device__ __forceinline__ float exponential(float x, float offset) {
  constexpr float log2e = 1.4426950408889634f;
  return sizeof(T) == 2 ? exp2_fast(__fmaf_rn(x, log2e, -(offset * log2e))) : expf(x - offset);
}

/// A running maximum and the sum of exp(x - maximum).
struct Softmax {
  float top = -1.0e38f, sum = 0;  // finite times log2(e) as well
};

template <class T>
__device__ Softmax merge(const Softmax& a, const Softmax& b) {
  const float top = larger(a.top, b.top);
  return {top, a.sum * exponential<T>(a.top - top, 0) + b.sum * exponential<T>(b.top - top, 0)};
}

template <class T>
__device__ Softmax merge_warp(Softmax mine) {
  for (int half = 16; half >= 1; half /= 2) {
    mine = merge<T>(mine, {__shfl_xor_sync(kAllLanes, mine.top, half), __shfl_xor_sync(kAllLanes, mine.sum, half)});
  }
  return mine;
}

/// Stores a pack's gradient. (bytes_of() keeps the bits of NaN, which are of no use here.)
template <class T>
__device__ __forceinline__ void store_gradient(T* p, const float (&x)[kPack]) {
  if constexpr (sizeof(T) == 2) {
    store16(p, {packed<T>(x[0], x[1]), packed<T>(x[2], x[3]), packed<T>(x[4], x[5]), packed<T>(x[6], x[7])});
  } else {
    store_pack<true>(p, kPack, true, x);
  }
}

/// A row's logits in packs. Each thread has the same packs in both passes. It reads them all, the last ones first, and
/// keeps those from `first_kept` on in shared memory. Then it makes their gradient, the first ones first: a cache still
/// has those that were not kept.
template <class L, class T>
struct Row {
  using Pack = StoredPack<L>;
  static constexpr int kLoads = 8 / static_cast<int>(sizeof(L));  // under way at a time
  const L* logits;
  std::int32_t vocab, packs, first_kept;
  Pack* kept;

  /// Loads packs first, first + step, ... of which those in [0, end) are there.
  __device__ __forceinline__ void load(Pack (&x)[kLoads], std::int32_t first, std::int32_t step,
                                       std::int32_t end) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::int32_t pack = first + i * step;
      x[i] = load_pack<true>(logits + std::int64_t{pack} * kPack, pack >= 0 && pack < end ? kPack : 0);
    }
  }
  /// Sets logits outside the vocabulary to minus infinity.
  __device__ __forceinline__ void cut(Pack& x, std::int32_t pack) const {
    if (static_cast<std::uint32_t>(pack) < static_cast<std::uint32_t>(vocab / kPack)) return;
    const std::int32_t inside = pack < 0 ? 0 : vocab - pack * kPack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i >= inside) x.set(i, -HUGE_VALF);
    }
  }

  template <bool Keeps>
  __device__ Softmax read() const {
    const auto step = static_cast<std::int32_t>(blockDim.x);
    Softmax mine;
    for (std::int32_t first = static_cast<std::int32_t>(threadIdx.x) + (packs - 1) / step * step; first >= 0;
         first -= kLoads * step) {
      Pack x[kLoads];
      load(x, first, -step, packs);
      float top = mine.top;
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const std::int32_t pack = first - i * step;
        cut(x[i], pack);
        if (Keeps && pack >= first_kept && pack < packs) kept[pack - first_kept] = x[i];
#pragma unroll
        for (int j = 0; j < kPack; ++j) top = larger(top, x[i][j]);
      }
      float sum = mine.sum * exponential<T>(mine.top - top, 0);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) sum += exponential<T>(x[i][j], top);
      }
      mine = {top, sum};
    }
    return mine;
  }

  /// Stores (exp(logit - offset) - onehot) * scale.
  __device__ void write_gradient(T* gradient, std::int32_t target, float offset, float scale) const {
    const auto write = [&](const Pack& x, std::int32_t pack) {
      float g[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) g[i] = exponential<T>(x[i], offset);
      if (pack == target / kPack) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) g[i] -= i == target % kPack ? 1.0f : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kPack; ++i) g[i] *= scale;
      store_gradient(gradient + std::int64_t{pack} * kPack, g);
    };
    const auto step = static_cast<std::int32_t>(blockDim.x);
    auto first = static_cast<std::int32_t>(threadIdx.x);
    for (; first < first_kept; first += kLoads * step) {
      Pack x[kLoads];
      load(x, first, step, first_kept);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const std::int32_t pack = first + i * step;
        if (pack < first_kept) cut(x[i], pack), write(x[i], pack);
      }
    }
    while (first - step >= first_kept) first -= step;
    for (; first < packs; first += step) write(kept[first - first_kept], first);
  }
};

/// A block has a row.
template <class L, class T, bool Training>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(const CrossEntropy a, std::int32_t first_kept) {
  __shared__ __align__(16) Softmax of_warp[kWarps];
  const std::int64_t number = blockIdx.x;
  const Row<L, T> row{static_cast<const L*>(a.logits) + number * a.stride, static_cast<std::int32_t>(a.vocab),
                      static_cast<std::int32_t>(a.stride / kPack), first_kept, dynamic_shared<StoredPack<L>>()};
  T* const gradient = static_cast<T*>(a.gradient) + number * a.stride;
  const std::int32_t target = a.targets[number];
  if (target == kUncounted) {  // the whole block
    if (threadIdx.x == 0) a.token_loss[number] = 0;
    if constexpr (Training) {
      for (std::int64_t i = threadIdx.x; i < row.packs; i += blockDim.x) store_gradient(gradient + i * kPack, {});
    }
    return;
  }
  const bool known = target >= 0 && target < a.vocab;
  const float target_logit = known ? to_float(row.logits[target]) : __uint_as_float(0x7fc00000u);

  Softmax mine = merge_warp<T>(row.template read<Training>());
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = merge_warp<T>(threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : Softmax{});
  if (threadIdx.x == 0) {
    const double log_sum_exp = static_cast<double>(mine.top) + log(static_cast<double>(mine.sum));
    a.token_loss[number] = log_sum_exp - static_cast<double>(target_logit);
  }
  if constexpr (Training) {
    row.write_gradient(gradient, known ? target : -1, mine.top + logf(mine.sum), a.scalars->gradient_scale);
  }
}

__global__ void __launch_bounds__(kThreads)
    sum_losses_kernel(const double* x, std::int64_t n, double* result, float* each) {
  __shared__ __align__(16) double of_warp[kWarps];
  const std::int64_t row = blockIdx.x, begin = row * n;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
    sum += x[begin + i];
    if (each != nullptr) each[begin + i] = static_cast<float>(x[begin + i]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < kWarps; ++warp) sum += of_warp[warp];
  result[row] = sum;
}

/// Returns how many of a row's packs a block keeps in shared memory.
std::int64_t packs_kept(std::int64_t packs, std::int64_t pack_bytes) {
  int device = 0, available = 0;
  TESSERA_CHECK_CUDA(cudaGetDevice(&device));
  TESSERA_CHECK_CUDA(cudaDeviceGetAttribute(&available, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  constexpr std::int64_t of_warps = sizeof(Softmax) * kWarps;
  return std::min(packs, (available - of_warps) / pack_bytes);
}

template <class L, class T>
void cross_entropy_of(cudaStream_t stream, const CrossEntropy& a) {
  constexpr std::int64_t kPackBytes = sizeof(StoredPack<L>);
  // Of such rows sm_90 has two in a multiprocessor: one block reads while the other one writes.
  constexpr std::int64_t kRowOfTwo = 112 << 10;
  const std::int64_t packs = a.stride / kPack;
  const std::int64_t most = packs * kPackBytes <= kRowOfTwo ? kThreads / 2 : kThreads;
  const auto threads = static_cast<unsigned>(std::min(most, round_up(packs, 32)));
  const bool training = a.scalars != nullptr;
  const std::int64_t kept = training ? packs_kept(packs, kPackBytes) : 0;
  const auto kernel = training ? cross_entropy_kernel<L, T, true> : cross_entropy_kernel<L, T, false>;
  launch(stream, blocks_for(a.rows, 1), dim3(threads), static_cast<std::size_t>(kept * kPackBytes), kernel, a,
         static_cast<std::int32_t>(packs - kept));
}

}  // namespace

void cross_entropy(cudaStream_t stream, const CrossEntropy& a) {
  TESSERA_ASSERT(a.logits_type == a.compute || a.logits_type == DType::fp32, "logits in {} where {} is computed",
                 name_of(a.logits_type), name_of(a.compute));
  with_float_type(a.compute, [&]<class T>() {
    if (a.logits_type == a.compute) return cross_entropy_of<T, T>(stream, a);
    cross_entropy_of<float, T>(stream, a);
  });
}

void sum_losses(cudaStream_t stream, const double* x, std::int64_t rows, std::int64_t n, double* sum, float* each) {
  launch(stream, blocks_for(rows, 1), dim3(kThreads), 0, sum_losses_kernel, x, n, sum, each);
}

}  // namespace tessera
