#pragma once
// Tiles of 16-bit rows in shared memory, as tensor-core attention reads them. A row is `Width` elements; its 16-byte
// chunks are permuted by the row's number, so that eight rows' equal chunks lie in different banks.

#include <cstddef>

#include "cuda/kernels/attention_problem.cuh"

namespace tessera {

/// The offsets of the 16 bytes that a lane names to ldmatrix, in bytes from `piece`. Pieces are at columns 0, 16, 32,
/// 48 (mod 64). Kept in registers, as they take longer to compute than to use. Matrices are numbered down, then right
/// (straight), or right, then down (crossed).
template <int Width>
struct LanePlaces {
  int straight[4], crossed[4];

  __device__ explicit LanePlaces(int lane) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      straight[i] = place(lane % 16, 2 * i + lane / 16);
      crossed[i] = place(lane % 8 + lane / 16 * 8, 2 * i + lane / 8 % 2);
    }
  }

 private:
  __device__ static int place(int row, int number) { return row * Width * 2 + (number ^ (row & 7)) * 16; }
};

/// Rows x Width elements of T in shared memory.
template <class T, int Rows_, int Width>
struct AttentionTile {
  static constexpr int kRows = Rows_, kWidth = Width, kChunks = Width / 8, kBytes = Rows_ * Width * 2;
  static_assert(kChunks % 8 == 0);

  T* data;

  __device__ T* chunk(int row, int number) const { return data + row * Width + ((number ^ (row & 7)) * 8); }
  /// Returns the base address of LanePlaces: `row` is a multiple of 8, `column` of 16.
  __device__ const std::byte* piece(int row, int column) const {
    return reinterpret_cast<const std::byte*>(data + row * Width + column / 64 * 64);
  }

  /// Loads A and C operands' rows: the 16 x 16 piece at (row, column), as ldmatrix's four matrices in the order of
  /// mma's A.
  __device__ void load_a(std::uint32_t (&x)[4], int row, int column, const LanePlaces<Width>& lane) const {
    ldmatrix_x4<false>(x, piece(row, column) + lane.straight[column / 16 % 4]);
  }
  /// Loads B = (these rows)^T: columns [row, row + 16) of B, its rows [column, column + 16). x[0], x[1]: B's first 8
  /// columns; x[2], x[3]: the next 8.
  __device__ void load_b(std::uint32_t (&x)[4], int row, int column, const LanePlaces<Width>& lane) const {
    ldmatrix_x4<false>(x, piece(row, column) + lane.crossed[column / 16 % 4]);
  }
  /// Loads B = these rows: rows [row, row + 16) of B, its columns [column, column + 16); in x as above.
  __device__ void load_b_as_stored(std::uint32_t (&x)[4], int row, int column, const LanePlaces<Width>& lane) const {
    ldmatrix_x4<true>(x, piece(row, column) + lane.straight[column / 16 % 4]);
  }

  /// Starts to fill the tile with rows [first, first + Rows) of one head; zeros beyond the sequence and the head's
  /// width. All `Threads` of the block; the caller calls cp_async_commit.
  template <int Threads>
  __device__ void load(const Rows<const T>& rows, std::int64_t sample_row, int first, int sequence,
                       std::int64_t head_column, int head_width, bool aligned) const {
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += Threads) {
      const int row = i / kChunks, number = i % kChunks;
      const bool row_inside = first + row < sequence;
      const T* from = rows.at(sample_row + (row_inside ? first + row : 0), head_column);
      if (aligned) {
        const bool inside = row_inside && number * 8 < head_width;
        cp_async16(chunk(row, number), inside ? from + number * 8 : from, inside);
      } else {
        const int left = row_inside ? head_width - number * 8 : 0;
        *reinterpret_cast<StoredPack<T>*>(chunk(row, number)) = load_pack(from + number * 8, left, false);
      }
    }
  }

  /// Puts the sums of a warp's 16 rows x Width (mma's D pieces) into rows [row, row + 16) of the tile.
  __device__ void put(const float (&sum)[Width / 8][4], int row, float low_factor, float high_factor, int lane) const {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < Width / 8; ++n) {
      auto* low = reinterpret_cast<std::uint32_t*>(chunk(row + g, n)) + t;
      auto* high = reinterpret_cast<std::uint32_t*>(chunk(row + g + 8, n)) + t;
      *low = packed<T>(sum[n][0] * low_factor, sum[n][1] * low_factor);
      *high = packed<T>(sum[n][2] * high_factor, sum[n][3] * high_factor);
    }
  }

  /// Writes rows [row, row + 16) to one head's rows from `first` + row on; one warp.
  __device__ void write(const Rows<T>& rows, int row, std::int64_t sample_row, int first, int sequence,
                        std::int64_t head_column, int head_width, bool aligned, int lane) const {
    for (int i = lane; i < 16 * kChunks; i += 32) {
      const int r = row + i / kChunks, number = i % kChunks;
      if (first + r >= sequence || number * 8 >= head_width) continue;
      T* to = rows.at(sample_row + first + r, head_column + number * 8);
      const T* from = chunk(r, number);
      if (aligned) {
        store16(to, load16(from));
      } else {
        for (int j = 0; j < 8 && number * 8 + j < head_width; ++j) to[j] = from[j];
      }
    }
  }
};

/// Computes D[16, Columns] += A[16, Depth] B for `Pieces` of 16 rows below each other. A from `a`, the first at row
/// `a_row`; B = b^T (b's rows are B's columns).
template <class T, int Columns, int Depth, int Pieces, class TileA, class TileB>
__device__ __forceinline__ void multiply_transposed(float (&d)[Pieces][Columns / 8][4], const TileA& a, int a_row,
                                                    const TileB& b, const LanePlaces<TileB::kWidth>& lane) {
#pragma unroll
  for (int k = 0; k < Depth; k += 16) {
    std::uint32_t x[Pieces][4];
#pragma unroll
    for (int piece = 0; piece < Pieces; ++piece) a.load_a(x[piece], a_row + 16 * piece, k, lane);
#pragma unroll
    for (int n = 0; n < Columns; n += 16) {
      std::uint32_t y[4];
      b.load_b(y, n, k, lane);
#pragma unroll
      for (int piece = 0; piece < Pieces; ++piece) {
        mma_16816<T>(d[piece][n / 8], x[piece], y[0], y[1]);
        mma_16816<T>(d[piece][n / 8 + 1], x[piece], y[2], y[3]);
      }
    }
  }
}

/// Computes the same, A in registers as mma's D pieces, B = b as stored.
template <class T, int Columns, int Depth, int Pieces, class TileB>
__device__ __forceinline__ void multiply_registers(float (&d)[Pieces][Columns / 8][4],
                                                   const float (&a)[Pieces][Depth / 8][4], const TileB& b,
                                                   const LanePlaces<TileB::kWidth>& lane) {
#pragma unroll
  for (int k = 0; k < Depth; k += 16) {
    std::uint32_t x[Pieces][4];
#pragma unroll
    for (int piece = 0; piece < Pieces; ++piece) {
      const auto& p = a[piece];
      x[piece][0] = packed<T>(p[k / 8][0], p[k / 8][1]), x[piece][1] = packed<T>(p[k / 8][2], p[k / 8][3]);
      x[piece][2] = packed<T>(p[k / 8 + 1][0], p[k / 8 + 1][1]);
      x[piece][3] = packed<T>(p[k / 8 + 1][2], p[k / 8 + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < Columns; n += 16) {
      std::uint32_t y[4];
      b.load_b_as_stored(y, k, n, lane);
#pragma unroll
      for (int piece = 0; piece < Pieces; ++piece) {
        mma_16816<T>(d[piece][n / 8], x[piece], y[0], y[1]);
        mma_16816<T>(d[piece][n / 8 + 1], x[piece], y[2], y[3]);
      }
    }
  }
}

}  // namespace tessera
