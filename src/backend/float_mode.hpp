#pragma once
// The floating-point mode of a thread: rounding, flushing of subnormals. It is part of the arithmetic, so all threads
// of a loop run with the caller's.

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tessera {

struct FloatMode {
  std::uint64_t bits = 0;
};

#if defined(__x86_64__)
inline constexpr std::uint32_t kStatusBits = 0x3f;  // exceptions seen so far: not a mode
inline FloatMode float_mode() { return {_mm_getcsr() & ~kStatusBits}; }
inline void set_float_mode(FloatMode mode) {
  if (float_mode().bits != mode.bits) _mm_setcsr(static_cast<std::uint32_t>(mode.bits));
}
#elif defined(__aarch64__)
inline FloatMode float_mode() { return {__builtin_aarch64_get_fpcr()}; }
inline void set_float_mode(FloatMode mode) { __builtin_aarch64_set_fpcr(static_cast<std::uint32_t>(mode.bits)); }
#else
#error "tell how this processor's floating-point mode is read and set"
#endif

}  // namespace tessera
