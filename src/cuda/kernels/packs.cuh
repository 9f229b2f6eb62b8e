#pragma once
// Eight neighbouring elements of a row at a time: 16 bytes of a 16-bit type, 2 x 16 bytes of fp32. Vector accesses if
// the memory is aligned and the row long enough, element by element otherwise.

#include <cstdint>

#include "cuda/kernels/intrinsics.cuh"
#include "tessera/kernels/views.hpp"

namespace tessera {

inline constexpr int kPack = 8;

/// Eight elements in their storage type.
template <class T>
struct alignas(16) StoredPack {
  T element[kPack];
};

template <class T>
__device__ __forceinline__ StoredPack<T> load_stored(const T* p) {
  StoredPack<T> stored;
  auto* parts = reinterpret_cast<Bytes16*>(&stored);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(stored) / 16); ++i) parts[i] = load16(p + i * (16 / sizeof(T)));
  return stored;
}

/// Loads x = p[0..8), zeros from `left` on. `aligned`: p is a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ void load_pack(const T* p, std::int64_t left, bool aligned, float (&x)[kPack]) {
  if (aligned && left >= kPack) {
    const StoredPack<T> stored = load_stored(p);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = to_float(stored.element[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = i < left ? to_float(p[i]) : 0.0f;
  }
}

/// Packs as many elements as 16 bytes hold. Pairs of 16 bits are rounded together. That loses the bits of NaN, so
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

/// Stores p[0..min(8, left)) = x.
template <class T>
__device__ __forceinline__ void store_pack(T* p, std::int64_t left, bool aligned, const float (&x)[kPack]) {
  if (aligned && left >= kPack) {
    constexpr int kEach = 16 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int i = 0; i < kPack; i += kEach) store16(p + i, bytes_of<T>(&x[i]));
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i < left) p[i] = from_float<T>(x[i]);
    }
  }
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

// ---- Host side.

inline bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }
/// Returns whether every row starts at a multiple of 16 bytes. An empty view does.
inline bool is_aligned(const ConstView& view) {
  return is_aligned(view.data) && (view.stride * size_of(view.dtype)) % 16 == 0;
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
