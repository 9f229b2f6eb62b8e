// Operands of linears in fp8: their largest magnitude, then what they are by its scale, as they lie and transposed in
// one read.

#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/fp8_tile.cuh"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;

__device__ __forceinline__ float rounded(float x, DType type) {
  if (type == DType::bf16) return to_float(from_float<bf16>(x));
  return type == DType::fp16 ? to_float(from_float<fp16>(x)) : x;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    largest_magnitude_kernel(Rows<const T> input, std::int64_t rows, std::int64_t columns, DType type,
                             unsigned* largest, bool aligned) {
  constexpr int kTogether = 4;  // packs whose loads are under way together
  const auto packs = static_cast<unsigned>((columns + kPack - 1) / kPack);
  const std::int64_t all = rows * packs, step = std::int64_t{gridDim.x} * kThreads;
  unsigned most = 0;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; first < all; first += kTogether * step) {
    StoredPack<T> x[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const std::int64_t index = first + i * step;  // below 2^31 while it counts
      const auto row = static_cast<unsigned>(index) / packs;
      const std::int64_t column = static_cast<std::int64_t>(static_cast<unsigned>(index) % packs) * kPack;
      x[i] = load_pack(input.at(row, column), index < all ? columns - column : 0, aligned);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) most = max(most, most_of(x[i]));
  }
  const float magnitude = rounded(__uint_as_float(in_fp32<T>(most)), type);
  raise_largest<float, kThreads>(largest, __float_as_uint(magnitude));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    to_codes_kernel(const T* input, std::int64_t n, DType type, const unsigned* largest, std::uint8_t* codes) {
  const float scale = scale_of<Fp8::e4m3>(*largest);
  const std::int64_t first = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack, left = n - first;
  if (left <= 0) return;
  const StoredPack<T> pack = load_pack(input + first, left, true);
  float x[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) x[i] = rounded(pack[i], type);
  const std::uint64_t low = four_codes<Fp8::e4m3>(x, 0, scale), high = four_codes<Fp8::e4m3>(x, 4, scale);
  const std::uint64_t all = low | high << 32;
  if (left >= kPack) {
    *reinterpret_cast<std::uint64_t*>(codes + first) = all;
  } else {
    for (int i = 0; i < left; ++i) codes[first + i] = static_cast<std::uint8_t>(all >> 8 * i);
  }
}

/// Sixteen numbers of a row, and their codes.
template <class T, Fp8 Type>
struct RowUnit {
  StoredPack<T> x[2];
  __device__ __forceinline__ void load(const T* p, std::int64_t left, bool aligned) {
    x[0] = load_pack(p, left, aligned), x[1] = load_pack(p + kPack, left - kPack, aligned);
  }
  __device__ __forceinline__ Bytes16 codes(float scale) const {
    Bytes16 codes;
#pragma unroll
    for (int word = 0; word < 4; ++word) codes.word[word] = four_codes<Type>(x[word / 2], word % 2 * 4, scale);
    return codes;
  }
};

/// They are codes already.
template <Fp8 Type>
struct RowUnit<std::uint8_t, Type> {
  Bytes16 all;
  __device__ __forceinline__ void load(const std::uint8_t* p, std::int64_t left, bool aligned) {
    all = Bytes16{};
    if (aligned && left >= kUnit) {
      all = load16(p);
    } else {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        if (i < left) all.word[i / 4] |= static_cast<unsigned>(p[i]) << i % 4 * 8;
      }
    }
  }
  __device__ __forceinline__ Bytes16 codes(float) const { return all; }
};

/// A block makes a tile.
template <class T, Fp8 Type>
__global__ void __launch_bounds__(kTileThreads)
    to_fp8_kernel(Rows<const T> input, std::int64_t rows, std::int64_t columns, const Fp8Result result, bool aligned) {
  __shared__ __align__(16) unsigned tile[kTileWords];
  const float scale = scale_of<Type>(*result.largest);
  if (blockIdx.x == 0 && threadIdx.x == 0) *result.factor = factor_of(*result.largest, scale);
  const Fp8Tile at(rows, columns);
  RowUnit<T, Type> x[kTileUnits];
#pragma unroll
  for (int i = 0; i < kTileUnits; ++i) {
    const TileUnit unit(at, i);
    x[i].load(input.at(unit.row, unit.column), unit.left, aligned);
  }
#pragma unroll
  for (int i = 0; i < kTileUnits; ++i) keep_codes(tile, at, TileUnit(at, i), x[i].codes(scale), result);
  if (result.turned.data == nullptr) return;
  __syncthreads();
  store_turned(tile, at, result);
}

/// Raises *largest to the bits of the largest magnitude, rounded to a type.
void find_largest(cudaStream_t stream, const ConstView& input, std::int64_t rows, std::int64_t columns, DType type,
                  unsigned* largest) {
  constexpr std::int64_t kMostBlocks = 2048;
  with_float_type(input.dtype, [&]<class T>() {
    dim3 grid = blocks_for(rows * ceil_div(columns, kPack), kThreads);
    grid.x = std::min<unsigned>(grid.x, kMostBlocks);
    launch(stream, grid, dim3(kThreads), 0, largest_magnitude_kernel<T>, rows_of<T>(input), rows, columns, type,
           largest, is_aligned(input));
  });
}

template <Fp8 Type>
void convert_to_fp8(cudaStream_t stream, const ToFp8& a, const unsigned* largest) {
  const bool copies = a.output || a.turned;  // or is it the factor alone
  const auto convert = [&]<class T>() {
    launch(stream, blocks_for(copies ? tiles_of(a.rows, a.columns) : 1, 1), dim3(kTileThreads), 0,
           to_fp8_kernel<T, Type>, rows_of<T>(a.input), a.rows, a.columns,
           Fp8Result{largest, a.factor, rows_of<std::uint8_t>(a.output), rows_of<std::uint8_t>(a.turned)},
           is_aligned(a.input));
  };
  if (a.input.dtype == DType::e4m3)
    convert.template operator()<std::uint8_t>();
  else
    with_float_type(a.input.dtype, convert);
}

}  // namespace

void CudaKernels::enqueue(cudaStream_t stream, const ToCodes& a) {
  with_float_type(a.x.dtype, [&]<class T>() {
    launch(stream, blocks_for(ceil_div(a.elements, kPack), kThreads), dim3(kThreads), 0, to_codes_kernel<T>,
           static_cast<const T*>(a.x.data), a.elements, a.rounded_to, reinterpret_cast<const unsigned*>(a.largest),
           static_cast<std::uint8_t*>(a.codes));
  });
}

void CudaKernels::enqueue(cudaStream_t stream, const LargestMagnitude& a) {
  TESSERA_ASSERT(a.elements < (std::int64_t{1} << 34), "a weight of {} elements in fp8", a.elements);
  // The lower half of an integer, in whose order magnitudes are.
  find_largest(stream, {a.x.data, a.x.dtype, a.elements}, 1, a.elements, a.rounded_to,
               reinterpret_cast<unsigned*>(a.largest));
}

void CudaKernels::enqueue(cudaStream_t stream, const ToFp8& a) {
  TESSERA_ASSERT(is_aligned(a.factor) && is_aligned(a.output) && is_aligned(a.turned),
                 "fp8 copies of [{}, {}] at unaligned places", a.rows, a.columns);
  const std::int64_t packs = checked_multiply(a.rows, ceil_div(a.columns, kPack));
  TESSERA_ASSERT(packs < (std::int64_t{1} << 31), "a matrix of {} x {} in fp8", a.rows, a.columns);
  const auto* largest = reinterpret_cast<const unsigned*>(a.largest);
  if (largest == nullptr) {
    auto* const found = reinterpret_cast<unsigned*>(a.factor + 1);
    largest = found;
    enqueue(stream, FillZero{found, sizeof *found});
    find_largest(stream, a.input, a.rows, a.columns, a.input.dtype, found);
  }
  if (a.type == Fp8::e4m3)
    convert_to_fp8<Fp8::e4m3>(stream, a, largest);
  else
    convert_to_fp8<Fp8::e5m2>(stream, a, largest);
}

}  // namespace tessera
