#pragma once
// Sizes: 64-bit everywhere. Overflow is an error, never a wrap-around.

#include <cstdint>

#include "tessera/base/refuse.hpp"

namespace tessera {

/// Every tensor in a flat parameter starts on a multiple of this many elements, and every shard is a multiple of it.
inline constexpr std::int64_t kTensorAlignment = 64;

/// Returns ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Returns the smallest multiple of `step` that is >= value.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return ceil_div(value, step) * step; }

/// Returns a * b, or throws UsageError when the product does not fit 63 bits.
inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw refusal("the size {} x {} overflows", a, b).use("sizes that fit in 63 bits");
  return product;
}

/// Returns a + b, or throws UsageError when the sum does not fit 63 bits.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw refusal("the size {} + {} overflows", a, b).use("sizes that fit in 63 bits");
  return sum;
}

/// Returns the largest power of two below n (n >= 2): where a node of the summation tree over n leaves splits.
constexpr std::int64_t tree_split(std::int64_t n) {
  std::int64_t half = 1;
  while (half * 2 < n) half *= 2;
  return half;
}

}  // namespace tessera
