#pragma once
// The needs of kernels beyond plain C++: 16-byte accesses, storage types, warp sums, asynchronous copies, tensor cores.

#include <cstdint>

#include "tessera/base/dtype.hpp"

namespace tessera {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// ---- Storage types: rounded to nearest even. NaN becomes the same as on the CPU: its upper bits in bf16, its sign in
// fp16.

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16); }
__device__ __forceinline__ float to_float(fp16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  if (x != x) y.bits = static_cast<std::uint16_t>((__float_as_uint(x) >> 16) | 0x40u);
  return y;
}
template <>
__device__ __forceinline__ fp16 from_float<fp16>(float x) {
  fp16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  if (x != x) y.bits = static_cast<std::uint16_t>(((__float_as_uint(x) >> 16) & 0x8000u) | 0x7e00u);
  return y;
}

/// Two values side by side in one register, `low` at the lower address. NaN becomes some NaN.
template <class T>
__device__ __forceinline__ std::uint32_t packed(float low, float high) {
  std::uint32_t y;
  if constexpr (dtype_of<T>() == DType::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  }
  return y;
}

// ---- Functions of one number.

/// 2^x to about 2 ulp.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x to 1 ulp; subnormal results are 0.
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- Warps. All 32 lanes take part.

__device__ __forceinline__ float warp_sum(float x) {
  for (int half = 16; half >= 1; half /= 2) x += __shfl_xor_sync(kAllLanes, x, half);
  return x;
}
__device__ __forceinline__ double warp_sum(double x) {
  for (int half = 16; half >= 1; half /= 2) x += __shfl_xor_sync(kAllLanes, x, half);
  return x;
}
/// NaN wins.
__device__ __forceinline__ float larger(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

// ---- 16 bytes at a time. Addresses are multiples of 16.

struct alignas(16) Bytes16 {
  std::uint32_t word[4];
};

__device__ __forceinline__ Bytes16 load16(const void* address) { return *static_cast<const Bytes16*>(address); }
/// To global memory. It is written out because the compiler cuts some assignments of 16 bytes into four stores.
__device__ __forceinline__ void store16(void* global, const Bytes16& value) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(global)), "r"(value.word[0]),
               "r"(value.word[1]), "r"(value.word[2]), "r"(value.word[3])
               : "memory");
}

// ---- Asynchronous copies of 16 bytes from global to shared memory (sm_80). They are there after cp_async_wait, for
// ---- the thread that copied; for others after a barrier behind that.

/// `inside` false: writes zeros and reads nothing.
__device__ __forceinline__ void cp_async16(void* shared, const void* global, bool inside) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(inside ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Pending` of this thread's groups are under way.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- Tensor cores: D[16,8] += A[16,16] B[16,8], 16-bit operands, fp32 sums. A warp holds the matrices in pieces. Lane
// 4 g + t has of A rows g, g + 8 and columns 2t, 2t + 1 (+ 8). It has of B rows 2t, 2t + 1 (+ 8) and column g. It has
// of D rows g, g + 8 and columns 2t, 2t + 1 (PTX ISA, "mma.m16n8k16").

template <class T>
__device__ __forceinline__ void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  if constexpr (dtype_of<T>() == DType::bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane 8 i + r names row r of matrix i (16 bytes).
/// Afterwards lane 4 g + t holds of each matrix row g, columns 2t and 2t + 1. With Transposed it is column g, rows 2t
/// and 2t + 1.
template <bool Transposed>
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&x)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(at)
                 : "memory");
  }
}

}  // namespace tessera
