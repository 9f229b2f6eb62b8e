// Operands of linears in fp8: their largest magnitude, then what they are by its scale, as they lie and transposed in
// one read.

#include "cuda/kernels/cuda_kernels.hpp"
#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/largest.cuh"
#include "cuda/kernels/packs.cuh"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kInfinity = 0x7f800000u;

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

/// The codes of two numbers, `low` in the lower byte: to nearest even, what is too large becomes the largest.
template <Fp8 Type>
__device__ __forceinline__ unsigned codes_of(float low, float high) {
  std::uint16_t codes = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if constexpr (Type == Fp8::e4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
#else
  asm volatile("trap;");  // such a GPU is refused
#endif
  return codes;
}

template <Fp8 Type>
__device__ __forceinline__ float scale_of(unsigned largest) {
  const float magnitude = __uint_as_float(largest);
  return magnitude > 0 ? fminf(__fdiv_rn(largest_of(Type), magnitude), 0x1p126f) : 1.0f;
}

template <Fp8 Type, class Numbers>
__device__ __forceinline__ unsigned four_codes(const Numbers& x, int first, float scale) {
  const unsigned low = codes_of<Type>(__fmul_rn(x[first], scale), __fmul_rn(x[first + 1], scale));
  return low | codes_of<Type>(__fmul_rn(x[first + 2], scale), __fmul_rn(x[first + 3], scale)) << 16;
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

constexpr int kSide = 128;         ///< of a tile, numbers
constexpr int kWords = kSide / 4;  ///< of a tile's row
constexpr int kUnit = 16;          ///< codes that are loaded and stored together
constexpr int kUnits = kSide / kUnit;

/// Transposes 4 x 4 bytes: word i of `x` is a row.
__device__ __forceinline__ void transpose_bytes(unsigned (&x)[4]) {
  const unsigned low01 = __byte_perm(x[0], x[1], 0x5140), high01 = __byte_perm(x[0], x[1], 0x7362);
  const unsigned low23 = __byte_perm(x[2], x[3], 0x5140), high23 = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(low01, low23, 0x5410), x[1] = __byte_perm(low01, low23, 0x7632);
  x[2] = __byte_perm(high01, high23, 0x5410), x[3] = __byte_perm(high01, high23, 0x7632);
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

/// A block makes a tile of 128 x 128. Its copy in shared memory is turned by a unit every 16 rows, so that threads that
/// read down its columns do not meet in a bank. What is beyond the matrix becomes zeros.
template <class T, Fp8 Type>
__global__ void __launch_bounds__(kThreads)
    to_fp8_kernel(Rows<const T> input, std::int64_t rows, std::int64_t columns, const unsigned* largest, float* factor,
                  Rows<std::uint8_t> output, Rows<std::uint8_t> turned, bool aligned) {
  constexpr int kEach = kSide * kUnits / static_cast<int>(kThreads);  // units of a thread
  __shared__ __align__(16) unsigned tile[kSide * kWords];
  const float scale = scale_of<Type>(*largest);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *factor = *largest < kInfinity ? __frcp_rn(scale) : __uint_as_float(0x7fc00000u);
  const auto across = static_cast<unsigned>((columns + kSide - 1) / kSide);
  const std::int64_t first_row = std::int64_t{blockIdx.x / across} * kSide;
  const std::int64_t first_column = std::int64_t{blockIdx.x % across} * kSide;
  const std::int64_t end_row = (rows + kFp8Pad - 1) / kFp8Pad * kFp8Pad;
  const std::int64_t end_column = (columns + kFp8Pad - 1) / kFp8Pad * kFp8Pad;

  RowUnit<T, Type> x[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const unsigned unit = i * kThreads + threadIdx.x;
    const std::int64_t row = first_row + unit / kUnits, column = first_column + unit % kUnits * kUnit;
    const std::int64_t left = row < rows ? columns - column : 0;
    x[i].load(input.at(row, column), left, aligned);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const unsigned unit = i * kThreads + threadIdx.x, tile_row = unit / kUnits;
    const Bytes16 codes = x[i].codes(scale);
    const std::int64_t row = first_row + tile_row, column = first_column + unit % kUnits * kUnit;
    if (output.data != nullptr && row < end_row && column < end_column) store16(output.at(row, column), codes);
    const unsigned place = (unit % kUnits + tile_row / kUnit) % kUnits;
    *reinterpret_cast<Bytes16*>(tile + tile_row * kWords + place * 4) = codes;
  }
  if (turned.data == nullptr) return;
  __syncthreads();
  // A thread transposes 16 rows of four columns.
  static_assert(kUnits * kWords == static_cast<int>(kThreads));
  const unsigned group = threadIdx.x % kUnits, word = threadIdx.x / kUnits;
  Bytes16 columns_of[4];
#pragma unroll
  for (int part = 0; part < 4; ++part) {
    unsigned four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = tile[(group * kUnit + part * 4 + i) * kWords + (word + 4 * group) % kWords];
    transpose_bytes(four);
#pragma unroll
    for (int i = 0; i < 4; ++i) columns_of[i].word[part] = four[i];
  }
  const std::int64_t row = first_row + group * kUnit;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t column = first_column + word * 4 + i;
    if (row < end_row && column < end_column) store16(turned.at(column, row), columns_of[i]);
  }
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
  const std::int64_t tiles = copies ? ceil_div(a.rows, kSide) * ceil_div(a.columns, kSide) : 1;
  const auto convert = [&]<class T>() {
    launch(stream, blocks_for(tiles, 1), dim3(kThreads), 0, to_fp8_kernel<T, Type>, rows_of<T>(a.input), a.rows,
           a.columns, largest, a.factor, rows_of<std::uint8_t>(a.output), rows_of<std::uint8_t>(a.turned),
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
