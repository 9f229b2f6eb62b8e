#include "cuda/kernels/cross_entropy.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 1024, kWarps = kThreads / 32;  ///< at most
constexpr int kGroup = 4;                                    ///< fp32 elements of a 16-byte access
constexpr float kLog2e = 1.4426950408889634f;

/// With 16-bit storage, exponentials are the hardware's.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == 2) {
    return exp2_fast(x * kLog2e);
  } else {
    return expf(x);
  }
}

/// A running maximum and the sum of exp(x - maximum).
struct Softmax {
  float top = -3.0e38f, sum = 0;
};

template <class T>
__device__ Softmax merge(const Softmax& a, const Softmax& b) {
  const float top = larger(a.top, b.top);
  return {top, a.sum * exponential<T>(a.top - top) + b.sum * exponential<T>(b.top - top)};
}

template <class T>
__device__ Softmax merge_warp(Softmax mine) {
  for (int half = 16; half >= 1; half /= 2) {
    mine = merge<T>(mine, {__shfl_xor_sync(kAllLanes, mine.top, half), __shfl_xor_sync(kAllLanes, mine.sum, half)});
  }
  return mine;
}

struct alignas(16) Four {
  float x[kGroup];
};

/// Loads logits i .. i + 3 of a row, minus infinity beyond its end. A row's padding may be read.
__device__ __forceinline__ Four logits_at(const float* row, std::int64_t i, std::int64_t vocab) {
  Four four{{-HUGE_VALF, -HUGE_VALF, -HUGE_VALF, -HUGE_VALF}};
  if (i < 0 || i >= vocab) return four;
  four = *reinterpret_cast<const Four*>(row + i);
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if (i + j >= vocab) four.x[j] = -HUGE_VALF;
  }
  return four;
}

/// Turns a row's logits into their gradient, (exp(logit - offset) - onehot) * scale. Stores 16 bytes of it at a time.
template <class T>
__device__ __forceinline__ void write_gradient(float* logits, std::int64_t vocab, std::int32_t target, float offset,
                                               float scale) {
  constexpr int kQuads = 16 / static_cast<int>(sizeof(T)) / kGroup;
  const std::int64_t step = std::int64_t{blockDim.x} * kQuads * kGroup, rounds = (vocab + step - 1) / step;
  T* gradient = reinterpret_cast<T*>(logits);
  Four next[kQuads] = {};
  const auto load = [&](std::int64_t i) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (i + q * kGroup < vocab) next[q] = *reinterpret_cast<const Four*>(logits + i + q * kGroup);
    }
  };
  // Loads one round ahead.
  std::int64_t i = std::int64_t{threadIdx.x} * kQuads * kGroup, barrier = 0;
  load(i);
  for (std::int64_t round = 0; round < rounds; ++round, i += step) {
    float x[kQuads * kGroup];
#pragma unroll
    for (int j = 0; j < kQuads * kGroup; ++j) x[j] = next[j / kGroup].x[j % kGroup];
    load(i + step);
    // A narrower gradient lies over logits of round / 2: it is written only after all have read those. Behind a barrier
    // in round b all have read up to b + 1, which serves rounds up to 2 b + 3.
    if (sizeof(T) < sizeof(float) && round == barrier) {
      __syncthreads();
      barrier = 2 * round + 4;
    }
    if (i >= vocab) continue;
#pragma unroll
    for (int j = 0; j < kQuads * kGroup; ++j) {
      x[j] = (exponential<T>(x[j] - offset) - (i + j == target ? 1.0f : 0.0f)) * scale;
    }
    if (i + kQuads * kGroup <= vocab) {
      Bytes16 bytes;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if constexpr (sizeof(T) == 2) {
          bytes.word[k] = packed<T>(x[2 * k], x[2 * k + 1]);
        } else {
          bytes.word[k] = __float_as_uint(x[k]);
        }
      }
      store16(gradient + i, bytes);
    } else {
#pragma unroll
      for (int j = 0; j < kQuads * kGroup; ++j) {
        if (i + j < vocab) gradient[i + j] = from_float<T>(x[j]);
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void clear_gradient(T* gradient, std::int64_t vocab) {
  constexpr int kEach = 16 / static_cast<int>(sizeof(T));
  for (std::int64_t i = std::int64_t{threadIdx.x} * kEach; i < vocab; i += std::int64_t{blockDim.x} * kEach) {
    if (i + kEach <= vocab) {
      store16(gradient + i, Bytes16{});
    } else {
      for (int j = 0; i + j < vocab; ++j) gradient[i + j] = from_float<T>(0.0f);
    }
  }
}

/// A block has a row. It is read once from memory, from its end to its beginning, and once more from the cache, which
/// then still has the beginning.
template <class T, bool Training>
__global__ void __launch_bounds__(kThreads, 1) cross_entropy_kernel(const CrossEntropy a) {
  __shared__ __align__(16) Softmax of_warp[kWarps];
  constexpr int kLoads = 4;  // under way at a time: a block fills a multiprocessor, so no other work hides it
  const std::int64_t step = std::int64_t{blockDim.x} * kGroup;
  const std::int64_t row = blockIdx.x;
  float* logits = a.logits + row * a.stride;
  const std::int32_t target = a.targets[row];
  if (target == kUncounted) {  // the whole block
    if (threadIdx.x == 0) a.token_loss[row] = 0;
    if constexpr (Training) clear_gradient(reinterpret_cast<T*>(logits), a.vocab);
    return;
  }
  const bool known = target >= 0 && target < a.vocab;
  const float target_logit = known ? logits[target] : __uint_as_float(0x7fc00000u);

  const std::int64_t first = std::int64_t{threadIdx.x} * kGroup;
  Softmax mine;
  for (std::int64_t i = first + (a.vocab - 1) / step * step; i >= 0; i -= kLoads * step) {
    Four four[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) four[load] = logits_at(logits, i - load * step, a.vocab);
    float top = mine.top;
#pragma unroll
    for (const Four& f : four) {
#pragma unroll
      for (int j = 0; j < kGroup; ++j) top = larger(top, f.x[j]);
    }
    float sum = mine.sum * exponential<T>(mine.top - top);
#pragma unroll
    for (const Four& f : four) {
#pragma unroll
      for (int j = 0; j < kGroup; ++j) sum += exponential<T>(f.x[j] - top);
    }
    mine = {top, sum};
  }
  mine = merge_warp<T>(mine);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = merge_warp<T>(threadIdx.x % 32 < blockDim.x / 32 ? of_warp[threadIdx.x % 32] : Softmax{});
  if (threadIdx.x == 0) {
    const double log_sum_exp = static_cast<double>(mine.top) + log(static_cast<double>(mine.sum));
    a.token_loss[row] = log_sum_exp - static_cast<double>(target_logit);
  }
  if constexpr (Training) {
    write_gradient<T>(logits, a.vocab, target, mine.top + logf(mine.sum), a.scalars->gradient_scale);
  }
}

__global__ void __launch_bounds__(kThreads)
    sum_losses_kernel(const double* x, std::int64_t n, double* result, float* each) {
  __shared__ __align__(16) double of_warp[kWarps];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
    sum += x[i];
    if (each != nullptr) each[i] = static_cast<float>(x[i]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < kWarps; ++warp) sum += of_warp[warp];
  *result = sum;
}

}  // namespace

void cross_entropy(cudaStream_t stream, const CrossEntropy& a, DType gradient) {
  with_float_type(gradient, [&]<class T>() {
    const auto kernel = a.scalars != nullptr ? cross_entropy_kernel<T, true> : cross_entropy_kernel<T, false>;
    const std::int64_t threads = std::min<std::int64_t>(kThreads, round_up(ceil_div(a.vocab, kGroup), 32));
    launch(stream, blocks_for(a.rows, 1), dim3(static_cast<unsigned>(threads)), 0, kernel, a);
  });
}

void sum_losses(cudaStream_t stream, const double* x, std::int64_t n, double* sum, float* each) {
  launch(stream, dim3(1), dim3(kThreads), 0, sum_losses_kernel, x, n, sum, each);
}

}  // namespace tessera
