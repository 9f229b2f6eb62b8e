#pragma once
// Eight neighbouring elements of a row at a time: 16 bytes of a 16-bit type, 2 x 16 bytes of fp32. Vector accesses if
// the memory is aligned and the row long enough, element by element otherwise.

#include <cstdint>

#include "cuda/kernels/grid.hpp"
#include "cuda/kernels/intrinsics.cuh"
#include "tessera/kernels/views.hpp"

namespace tessera {

inline constexpr int kPack = 8;

/// Eight elements as memory holds them. They become numbers where they are used, so that a load is waited for there and
/// not before, and the loads behind it are under way by then.
template <class T>
struct StoredPack {
  static constexpr int kEach = 16 / static_cast<int>(sizeof(T));  ///< elements of 16 bytes
  Bytes16 part[kPack / kEach];

  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(part[i / kEach].word[i % kEach]);
    } else if constexpr (dtype_of<T>() == DType::bf16) {
      const std::uint32_t word = part[0].word[i / 2];
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
      T element;
      element.bits = static_cast<std::uint16_t>(part[0].word[i / 2] >> (i % 2 * 16));
      return to_float(element);
    }
  }
  __device__ __forceinline__ void set(int i, float x) {
    if constexpr (sizeof(T) == 4) {
      part[i / kEach].word[i % kEach] = __float_as_uint(x);
    } else {
      std::uint32_t& word = part[0].word[i / 2];
      const int shift = i % 2 * 16;
      word = (word & ~(0xffffu << shift)) | static_cast<std::uint32_t>(from_float<T>(x).bits) << shift;
    }
  }
};

/// Loads p[0..8), zeros from `left` on. `aligned`: p is a multiple of 16 bytes. `Whole`: it is, and rows are, so that
/// each 16 bytes are there or not, and no branch is needed.
template <bool Whole = false, class T>
__device__ __forceinline__ StoredPack<T> load_pack(const T* p, std::int64_t left, bool aligned = Whole) {
  StoredPack<T> x{};
  if (Whole || (aligned && left >= kPack)) {
#pragma unroll
    for (int i = 0; i < kPack; i += x.kEach) {
      if (i < left) x.part[i / x.kEach] = load16(p + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i >= left) continue;
      if constexpr (sizeof(T) == 4) {
        x.part[i / x.kEach].word[i % x.kEach] = __float_as_uint(p[i]);
      } else {
        x.part[0].word[i / 2] |= static_cast<std::uint32_t>(p[i].bits) << (i % 2 * 16);
      }
    }
  }
  return x;
}

/// Makes the compiler unpack x again, instead of keeping its eight numbers in registers.
template <class T>
__device__ __forceinline__ void pack_again(StoredPack<T>& x) {
#pragma unroll
  for (Bytes16& part : x.part) {
#pragma unroll
    for (std::uint32_t& word : part.word) asm volatile("" : "+r"(word));
  }
}

/// Packs as many elements as 16 bytes hold. Pairs of 16 bits are rounded together, which loses the bits of NaN, so
/// pairs with a NaN are rounded one by one.
template <class T>
__device__ __forceinline__ Bytes16 bytes_of(const float* x) {
  Bytes16 bytes;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) bytes.word[i] = __float_as_uint(x[i]);
  } else {
    bool any_nan = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bytes.word[i] = packed<T>(x[2 * i], x[2 * i + 1]);
      any_nan = any_nan || x[2 * i] != x[2 * i] || x[2 * i + 1] != x[2 * i + 1];
    }
    if (any_nan) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t low = from_float<T>(x[2 * i]).bits, high = from_float<T>(x[2 * i + 1]).bits;
        bytes.word[i] = low | high << 16;
      }
    }
  }
  return bytes;
}

/// Returns x as memory would hold it.
template <class T>
__device__ __forceinline__ StoredPack<T> stored_as(const float (&x)[kPack]) {
  StoredPack<T> stored;
#pragma unroll
  for (int i = 0; i < kPack; i += stored.kEach) stored.part[i / stored.kEach] = bytes_of<T>(&x[i]);
  return stored;
}

/// Stores p[0..min(8, left)) = x. Returns all eight as memory holds them.
template <bool Whole = false, class T>
__device__ __forceinline__ StoredPack<T> store_pack(T* p, std::int64_t left, bool aligned, const float (&x)[kPack]) {
  StoredPack<T> stored;
  if (Whole || (aligned && left >= kPack)) {
#pragma unroll
    for (int i = 0; i < kPack; i += stored.kEach) {
      stored.part[i / stored.kEach] = bytes_of<T>(&x[i]);
      if (i < left) store16(p + i, stored.part[i / stored.kEach]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i < left) p[i] = from_float<T>(x[i]);
      if (i % stored.kEach == 0) stored.part[i / stored.kEach] = bytes_of<T>(&x[i]);
    }
  }
  return stored;
}

/// Writes a finished fp32 gradient: stored or added, rounded once. `x`: eight numbers, or a pack of them.
template <class G, class X>
__device__ __forceinline__ void write_gradient(G* p, std::int64_t left, bool aligned, bool adds, const X& x) {
  StoredPack<G> before{};
  if (adds) before = load_pack(p, left, aligned);
  float sum[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) sum[i] = adds ? before[i] + x[i] : x[i];
  store_pack(p, left, aligned, sum);
}

/// Returns x as it reads after being stored in T.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

/// A matrix that a kernel reads or writes, typed. Null if a view was empty.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;

  __device__ T* at(std::int64_t row, std::int64_t column = 0) const { return data + row * stride + column; }
};

inline constexpr unsigned kPlaceThreads = 256;  ///< of a block

/// This thread's pack of a [rows, columns] matrix.
struct Place {
  std::int64_t row, column, left;  ///< left: elements from here to the row's end; nothing when not positive

  __device__ Place(std::int64_t rows, std::int64_t columns) {
    const auto packs = static_cast<std::uint32_t>((columns + kPack - 1) / kPack);
    const std::uint32_t index = blockIdx.x * kPlaceThreads + threadIdx.x;
    row = index / packs;
    column = static_cast<std::int64_t>(index % packs) * kPack;
    left = row < rows ? columns - column : 0;
  }
};

// ---- Host side.

/// Returns the blocks for Place. 32 bits number the packs: a matrix of 2^34 elements is the largest.
inline dim3 blocks_of_places(std::int64_t rows, std::int64_t columns) {
  const std::int64_t packs = checked_multiply(rows, ceil_div(columns, kPack));
  TESSERA_ASSERT(packs < (std::int64_t{1} << 31), "a matrix of {} x {} in one launch", rows, columns);
  return blocks_for(packs, kPlaceThreads);
}

inline bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }
/// Returns whether every row starts at a multiple of 16 bytes. An empty view does.
inline bool is_aligned(const ConstView& view) {
  return is_aligned(view.data) && (view.stride * size_of(view.dtype)) % 16 == 0;
}

/// Returns whether rows of this width are multiples of 16 bytes.
template <class T>
bool are_whole(std::int64_t width) {
  return width % StoredPack<T>::kEach == 0;
}

template <class T>
Rows<const T> rows_of(const ConstView& view) {
  return {static_cast<const T*>(view.data), view.stride};
}
template <class T>
Rows<T> rows_of(const View& view) {
  return {static_cast<T*>(view.data), view.stride};
}

}  // namespace tessera
