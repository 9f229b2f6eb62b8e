// Element-wise operations of the engine: casts, zeros, sums, and the exact sum of squares.

#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

template <class From, class To>
__global__ void __launch_bounds__(kThreads) cast_kernel(const From* from, To* to, std::int64_t n, bool aligned) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  if (i >= n) return;
  const StoredPack<From> x = load_pack(from + i, n - i, aligned);
  float y[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) y[j] = x[j];
  store_pack(to + i, n - i, aligned, y);
}

template <class A, class B, class Out>
__global__ void __launch_bounds__(kThreads) add_kernel(const A* a, const B* b, Out* out, std::int64_t n, bool aligned) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  if (i >= n) return;
  const StoredPack<A> x = load_pack(a + i, n - i, aligned);
  const StoredPack<B> y = load_pack(b + i, n - i, aligned);
  float sum[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) sum[j] = __fadd_rn(x[j], y[j]);
  store_pack(out + i, n - i, aligned, sum);
}

/// Adds `term` exactly to a set of bins (base/exact_sum.hpp): one lane at a time.
__device__ void add_exactly(unsigned long long* bins, double term) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(term));
  const int biased = static_cast<int>(bits >> 52) & 0x7ff;
  unsigned long long mantissa = bits & ((1ull << 52) - 1);
  if (biased == 0x7ff) {
    ++bins[ExactSum::kBins];
    return;
  }
  if (biased == 0 && mantissa == 0) return;
  if (biased != 0) mantissa |= 1ull << 52;
  const int shift = biased == 0 ? 0 : biased - 1;
  const int bin = shift / 32, offset = shift % 32;
  // A square is never negative. 53 bits shifted by up to 31 span three windows of 32.
  const unsigned long long low = (mantissa & 0xffffffffull) << offset;
  const unsigned long long high = (low >> 32) + ((mantissa >> 32) << offset);
  bins[bin] += low & 0xffffffffull;
  bins[bin + 1] += high & 0xffffffffull;
  bins[bin + 2] += high >> 32;
}

constexpr unsigned kSquareWarps = 8, kSums = ExactSum::kBins + 1;
/// Bins of a block: a set for eight lanes, which add to it in turn.
constexpr unsigned kSets = kSquareWarps * 4;

/// A chunk of 64 elements is 16 sums of 4 squares: elements j, j + 16, j + 32, j + 48. They are added as a tree of
/// halves, the CPU's order (kernels/cpu/vector/optimizer_rows.hpp). Two threads make one chunk's sum, eight of the 16
/// each.
template <class T>
__global__ void __launch_bounds__(kSquareWarps * 32)
    square_sum_kernel(const T* x, std::int64_t n, unsigned long long* sum, bool aligned) {
  constexpr int kChunks = 16;  // of a warp
  __shared__ __align__(16) unsigned long long bins[kSets * kSums];
  for (unsigned i = threadIdx.x; i < kSets * kSums; i += kSquareWarps * 32) bins[i] = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t chunks = (n + 63) / 64;
  const std::int64_t step = std::int64_t{gridDim.x} * kSquareWarps * kChunks;
  std::int64_t first = (std::int64_t{blockIdx.x} * kSquareWarps + threadIdx.x / 32) * kChunks;
  for (; first < chunks; first += step) {
    const std::int64_t at = (first + lane / 2) * 64 + lane % 2 * kPack;
    StoredPack<T> stored[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) stored[r] = load_pack(x + at + 16 * r, n - at - 16 * r, aligned);
    double s[kPack] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const auto v = static_cast<double>(stored[r][j]);
        s[j] = __fma_rn(v, v, s[j]);  // the square is exact
      }
    }
#pragma unroll
    for (int j = 0; j < kPack; ++j) s[j] = __dadd_rn(s[j], __shfl_xor_sync(kAllLanes, s[j], 1));
#pragma unroll
    for (int half = kPack / 2; half >= 1; half /= 2) {
#pragma unroll
      for (int j = 0; j < half; ++j) s[j] = __dadd_rn(s[j], s[j + half]);
    }
    for (int turn = 0; turn < 8; turn += 2) {
      if (lane % 8 == turn) add_exactly(bins + threadIdx.x / 8 * kSums, s[0]);
      __syncwarp();
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kSums; i += kSquareWarps * 32) {
    unsigned long long total = 0;
    for (unsigned set = 0; set < kSets; ++set) total += bins[set * kSums + i];
    if (total != 0) atomicAdd(sum + i, total);  // integers: the order leaves no trace
  }
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const Cast& a) {
  if (a.elements == 0) return;
  if (a.from.dtype == a.to.dtype) {
    TESSERA_CHECK_CUDA(cudaMemcpyAsync(a.to.data, a.from.data,
                                       static_cast<std::size_t>(a.elements * size_of(a.from.dtype)),
                                       cudaMemcpyDeviceToDevice, stream));
    return;
  }
  const bool aligned = is_aligned(a.from.data) && is_aligned(a.to.data);
  with_float_type(a.from.dtype, [&]<class From>() {
    with_float_type(a.to.dtype, [&]<class To>() {
      launch(stream, blocks_for(a.elements, kThreads * kPack), dim3(kThreads), 0, cast_kernel<From, To>,
             static_cast<const From*>(a.from.data), static_cast<To*>(a.to.data), a.elements, aligned);
    });
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const FillZero& a) {
  if (a.bytes == 0) return;
  TESSERA_CHECK_CUDA(cudaMemsetAsync(a.data, 0, static_cast<std::size_t>(a.bytes), stream));
}

void CudaKernels::enqueue(cudaStream_t stream, const Add& sum) {
  const bool aligned = is_aligned(sum.a.data) && is_aligned(sum.b.data) && is_aligned(sum.out.data);
  with_float_type(sum.a.dtype, [&]<class A>() {
    with_float_type(sum.b.dtype, [&]<class B>() {
      with_float_type(sum.out.dtype, [&]<class Out>() {
        launch(stream, blocks_for(sum.elements, kThreads * kPack), dim3(kThreads), 0, add_kernel<A, B, Out>,
               static_cast<const A*>(sum.a.data), static_cast<const B*>(sum.b.data), static_cast<Out*>(sum.out.data),
               sum.elements, aligned);
      });
    });
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const SquareSum& a) {
  static_assert(sizeof(ExactSum) == kSums * sizeof(unsigned long long));
  constexpr std::int64_t kMostBlocks = 1024;  // each adds its bins to the result once
  with_float_type(a.x.dtype, [&]<class T>() {
    dim3 grid = blocks_for(a.elements, kSquareWarps * 32 * 64);
    grid.x = std::min<unsigned>(grid.x, kMostBlocks);
    launch(stream, grid, dim3(kSquareWarps * 32), 0, square_sum_kernel<T>, static_cast<const T*>(a.x.data), a.elements,
           reinterpret_cast<unsigned long long*>(a.sum), is_aligned(a.x.data));
  });
}

}  // namespace tessera
