#pragma once
// What nvcc gives to device code and a C++ compiler does not: indices, barriers, warp operations, atomics, rounding
// functions. Semantics are CUDA's; what a GPU leaves undefined is a fault here.

#include <cuda_runtime.h>  // before the names below become macros

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulator/device/grid.hpp"

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __forceinline__
#define __forceinline__ inline

#define threadIdx (::emulator::place().thread_index)
#define blockIdx (::emulator::place().block_index)
#define blockDim (::emulator::place().block)
#define gridDim (::emulator::place().grid)

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): CUDA's own names

inline void __syncthreads(const ::emulator::SourcePlace& at = ::emulator::SourcePlace::current()) {
  ::emulator::block_barrier(at);
}

inline void __syncwarp(std::uint32_t mask = 0xffffffffu,
                       const ::emulator::SourcePlace& at = ::emulator::SourcePlace::current()) {
  ::emulator::meet(
      mask, nullptr, nullptr, [](const ::emulator::Meeting&) {}, at);
}

namespace emulator {

/// Every lane of `mask` gives a value and takes the one of lane source(lane); its own where that lane is not in the
/// mask would be undefined on a GPU, and is a fault.
template <class T, class Source>
T exchange(std::uint32_t mask, T value, Source source, const ::emulator::SourcePlace& at) {
  T result = value;
  meet(
      mask, &value, &result,
      [&](const Meeting& m) {
        for (unsigned lane = 0; lane < 32; ++lane) {
          if (m.out[lane] == nullptr) continue;
          const unsigned from = source(lane);
          if (from > 31 || m.in[from] == nullptr) fault("a shuffle that reads a lane outside of its mask", at);
          *static_cast<T*>(m.out[lane]) = *static_cast<const T*>(m.in[from]);
        }
      },
      at);
  return result;
}

}  // namespace emulator

template <class T>
T __shfl_xor_sync(std::uint32_t mask, T value, int lane_mask,
                  const ::emulator::SourcePlace& at = ::emulator::SourcePlace::current()) {
  return ::emulator::exchange(
      mask, value, [=](unsigned lane) { return lane ^ static_cast<unsigned>(lane_mask); }, at);
}

/// (All lanes must name the same source lane: that is all we use.)
template <class T>
T __shfl_sync(std::uint32_t mask, T value, int source,
              const ::emulator::SourcePlace& at = ::emulator::SourcePlace::current()) {
  return ::emulator::exchange(
      mask, value, [=](unsigned) { return static_cast<unsigned>(source); }, at);
}

/// A bit for every lane of `mask`: whether its predicate is not zero.
inline unsigned __ballot_sync(std::uint32_t mask, int predicate,
                              const ::emulator::SourcePlace& at = ::emulator::SourcePlace::current()) {
  unsigned result = 0;
  ::emulator::meet(
      mask, &predicate, &result,
      [](const ::emulator::Meeting& m) {
        unsigned bits = 0;
        for (unsigned lane = 0; lane < 32; ++lane) {
          if (m.in[lane] != nullptr && *static_cast<const int*>(m.in[lane]) != 0) bits |= 1u << lane;
        }
        for (unsigned lane = 0; lane < 32; ++lane) {
          if (m.out[lane] != nullptr) *static_cast<unsigned*>(m.out[lane]) = bits;
        }
      },
      at);
  return result;
}
inline int __any_sync(std::uint32_t mask, int predicate,
                      const ::emulator::SourcePlace& at = ::emulator::SourcePlace::current()) {
  return __ballot_sync(mask, predicate, at) != 0 ? 1 : 0;
}
inline int __popc(unsigned a) { return std::popcount(a); }
/// The lowest bit's number from 1 on; 0 for none.
inline int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }

inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return std::atomic_ref<unsigned long long>(*address).fetch_add(value);
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return std::atomic_ref<unsigned>(*address).fetch_add(value);
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// (The emulator's sources are compiled without contraction, so that these are one rounding each.)
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline std::uint32_t __float_as_uint(float a) { return std::bit_cast<std::uint32_t>(a); }
inline float __uint_as_float(std::uint32_t a) { return std::bit_cast<float>(a); }
inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline float __expf(float a) { return std::exp(a); }

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
