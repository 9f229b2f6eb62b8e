#pragma once
// Tiles of matrices that become fp8: codes as they lie and transposed, by a block of threads each.

#include "cuda/kernels/packs.cuh"
#include "tessera/base/fp8.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

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
  asm volatile("trap;");  // such GPUs are refused, and such code on newer ones
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

/// What takes sums back: NaN where a number is not finite.
__device__ __forceinline__ float factor_of(unsigned largest, float scale) {
  constexpr unsigned kInfinity = 0x7f800000u;
  return largest < kInfinity ? __frcp_rn(scale) : __uint_as_float(0x7fc00000u);
}

/// Where a matrix in fp8 goes (ToFp8).
struct Fp8Result {
  const unsigned* largest;
  float* factor;
  Rows<std::uint8_t> output, turned;
};

inline constexpr unsigned kTileThreads = 256;
inline constexpr int kSide = 128;         ///< of a tile, numbers
inline constexpr int kWords = kSide / 4;  ///< of a tile's row
inline constexpr int kTileWords = kSide * kWords;
inline constexpr int kUnit = 16;  ///< codes that are loaded and stored together
inline constexpr int kUnits = kSide / kUnit;
inline constexpr int kTileUnits = kSide * kUnits / static_cast<int>(kTileThreads);  ///< of a thread

/// Returns how many tiles cover a matrix: a block each.
inline std::int64_t tiles_of(std::int64_t rows, std::int64_t columns) {
  return ceil_div(rows, kSide) * ceil_div(columns, kSide);
}

/// This block's tile of a matrix, and the end of its copies' memory: of whole pads.
struct Fp8Tile {
  std::int64_t rows, columns, first_row, first_column, end_row, end_column;

  __device__ __forceinline__ Fp8Tile(std::int64_t matrix_rows, std::int64_t matrix_columns)
      : rows(matrix_rows),
        columns(matrix_columns),
        end_row((rows + kFp8Pad - 1) / kFp8Pad * kFp8Pad),
        end_column((columns + kFp8Pad - 1) / kFp8Pad * kFp8Pad) {
    const auto across = static_cast<unsigned>((columns + kSide - 1) / kSide);
    first_row = std::int64_t{blockIdx.x / across} * kSide, first_column = std::int64_t{blockIdx.x % across} * kSide;
  }
  __device__ __forceinline__ bool has(std::int64_t row, std::int64_t column) const {
    return row < end_row && column < end_column;
  }
};

/// Sixteen neighbouring numbers of the tile, a thread's unit number `i`.
struct TileUnit {
  unsigned in_row, tile_row;
  std::int64_t row, column, left;  ///< left: numbers from here to the row's end; 0 behind the last row

  __device__ __forceinline__ TileUnit(const Fp8Tile& at, int i) {
    const unsigned unit = i * kTileThreads + threadIdx.x;
    in_row = unit % kUnits, tile_row = unit / kUnits;
    row = at.first_row + tile_row, column = at.first_column + in_row * kUnit;
    left = row < at.rows ? at.columns - column : 0;
  }
};

/// Stores a unit's codes, and keeps them in the tile. That is turned by a unit every 16 rows, so that threads that read
/// down its columns do not meet in a bank. What is beyond the matrix has become zeros.
__device__ __forceinline__ void keep_codes(unsigned* tile, const Fp8Tile& at, const TileUnit& unit,
                                           const Bytes16& codes, const Fp8Result& result) {
  if (result.output.data != nullptr && at.has(unit.row, unit.column))
    store16(result.output.at(unit.row, unit.column), codes);
  const unsigned place = (unit.in_row + unit.tile_row / kUnit) % kUnits;
  *reinterpret_cast<Bytes16*>(tile + unit.tile_row * kWords + place * 4) = codes;
}

/// Transposes 4 x 4 bytes: word i of `x` is a row.
__device__ __forceinline__ void transpose_bytes(unsigned (&x)[4]) {
  const unsigned low01 = __byte_perm(x[0], x[1], 0x5140), high01 = __byte_perm(x[0], x[1], 0x7362);
  const unsigned low23 = __byte_perm(x[2], x[3], 0x5140), high23 = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(low01, low23, 0x5410), x[1] = __byte_perm(low01, low23, 0x7632);
  x[2] = __byte_perm(high01, high23, 0x5410), x[3] = __byte_perm(high01, high23, 0x7632);
}

/// Stores the tile transposed, behind a barrier. A thread transposes 16 rows of four columns.
__device__ __forceinline__ void store_turned(const unsigned* tile, const Fp8Tile& at, const Fp8Result& result) {
  static_assert(kUnits * kWords == static_cast<int>(kTileThreads));
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
  const std::int64_t row = at.first_row + group * kUnit;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t column = at.first_column + word * 4 + i;
    if (at.has(row, column)) store16(result.turned.at(column, row), columns_of[i]);
  }
}

}  // namespace tessera
