#pragma once
// Warp-wide matrix operations and asynchronous copies, element by element (PTX ISA: mma.m16n8k16, ldmatrix, cp.async).

#include <cstdint>
#include <cstring>

#include "emulator/device/grid.hpp"
#include "tessera/base/dtype.hpp"

namespace emulator {

namespace detail {

struct MmaOperands {
  const float* d;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

template <class T>
float half_of(std::uint32_t pair, int which) {
  T value;
  value.bits = static_cast<std::uint16_t>(which == 0 ? pair : pair >> 16);
  return static_cast<float>(value);
}

template <class T>
void mma_of_warp(const Meeting& m) {
  float a[16][16], b[16][8], d[16][8];
  const auto operands = [&](int lane) { return static_cast<const MmaOperands*>(m.in[lane]); };
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; ++i) {
      for (int piece = 0; piece < 4; ++piece) {
        a[g + 8 * (piece % 2)][2 * t + i + 8 * (piece / 2)] = half_of<T>(operands(lane)->a[piece], i);
      }
      for (int piece = 0; piece < 2; ++piece) b[2 * t + i + 8 * piece][g] = half_of<T>(operands(lane)->b[piece], i);
      for (int piece = 0; piece < 2; ++piece) d[g + 8 * piece][2 * t + i] = operands(lane)->d[2 * piece + i];
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    auto* out = static_cast<float*>(m.out[lane]);
    for (int i = 0; i < 4; ++i) out[i] = d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
  }
}

}  // namespace detail

template <class T>
void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
               const SourcePlace& at = SourcePlace::current()) {
  const detail::MmaOperands operands{d, a, {b0, b1}};
  meet(0xffffffffu, &operands, d, &detail::mma_of_warp<T>, at);
}

inline void ldmatrix_x4(std::uint32_t (&x)[4], const void* row, bool transposed,
                        const SourcePlace& at = SourcePlace::current()) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) fault("ldmatrix of a misaligned row", at);
  meet(
      0xffffffffu, row, x,
      [transposed](const Meeting& m) {
        for (int matrix = 0; matrix < 4; ++matrix) {
          std::uint16_t element[8][8];
          for (int r = 0; r < 8; ++r) std::memcpy(element[r], m.in[8 * matrix + r], 16);
          for (int lane = 0; lane < 32; ++lane) {
            const int g = lane / 4, t = lane % 4;
            const std::uint32_t low = transposed ? element[2 * t][g] : element[g][2 * t];
            const std::uint32_t high = transposed ? element[2 * t + 1][g] : element[g][2 * t + 1];
            static_cast<std::uint32_t*>(m.out[lane])[matrix] = low | high << 16;
          }
        }
      },
      at);
}

/// Copies happen as late as they may: at the wait. Until then the destination holds NaN.
void cp_async(void* shared, const void* global, int bytes);
void cp_async_commit();
void cp_async_wait(int pending);

}  // namespace emulator
