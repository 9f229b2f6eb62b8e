#pragma once
// A sum of doubles that does not depend on the order of its terms. Fixed bins of 32 bits cover the range of double and
// are held in 64-bit integers. Ranks add their bins as integers (one all-reduce), so every split of the terms gives the
// same bits. (The idea: Kulisch's long accumulator; Demmel & Nguyen, "Reproducible summation".)

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tessera/base/host_device.hpp"

namespace tessera {

/// Plain data: may be kept in a planned buffer, be zeroed by memset and be summed bin by bin over ranks.
/// Holds up to 2^30 terms of either sign before a bin could overflow.
struct ExactSum {
  static constexpr int kBins = 68;  ///< 32-bit windows over exponents 2^-1074 .. 2^1101
  std::array<std::int64_t, kBins> bins;
  std::int64_t non_finite;  ///< number of terms that were NaN or infinite; value() is NaN when > 0

  TESSERA_HOST_DEVICE void clear() {
    for (std::size_t i = 0; i < kBins; ++i) bins[i] = 0;
    non_finite = 0;
  }
  TESSERA_HOST_DEVICE void add(double term);
  TESSERA_HOST_DEVICE void add(const ExactSum& other);
  /// Returns the exact sum rounded once to double (NaN if a term was not finite).
  TESSERA_HOST_DEVICE double value() const;
};
static_assert(sizeof(ExactSum) == (ExactSum::kBins + 1) * sizeof(std::int64_t));

namespace detail {
__extension__ typedef unsigned __int128 Wide;
inline constexpr int kLowestExponent = -1074;  // weight of bin 0's lowest bit: the smallest subnormal
}  // namespace detail

TESSERA_HOST_DEVICE inline void ExactSum::add(double term) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const int biased = static_cast<int>((bits >> 52) & 0x7ff);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (biased == 0x7ff) {
    ++non_finite;
    return;
  }
  if (biased == 0 && mantissa == 0) return;
  int shift = 0;  // position of the mantissa's lowest bit above detail::kLowestExponent
  if (biased != 0) {
    mantissa |= std::uint64_t{1} << 52;
    shift = biased - 1;
  }
  const int bin = shift / 32;
  const int offset = shift % 32;
  const std::int64_t sign = (bits >> 63) ? -1 : 1;
  // 53 bits shifted by up to 31 span three windows of 32 bits.
  const detail::Wide wide = static_cast<detail::Wide>(mantissa) << offset;
  bins[static_cast<std::size_t>(bin)] +=
      sign * static_cast<std::int64_t>(static_cast<std::uint64_t>(wide) & 0xffffffffu);
  bins[static_cast<std::size_t>(bin) + 1] +=
      sign * static_cast<std::int64_t>(static_cast<std::uint64_t>(wide >> 32) & 0xffffffffu);
  bins[static_cast<std::size_t>(bin) + 2] +=
      sign * static_cast<std::int64_t>(static_cast<std::uint64_t>(wide >> 64) & 0xffffffffu);
}

TESSERA_HOST_DEVICE inline void ExactSum::add(const ExactSum& other) {
  for (std::size_t i = 0; i < kBins; ++i) bins[i] += other.bins[i];
  non_finite += other.non_finite;
}

TESSERA_HOST_DEVICE inline double ExactSum::value() const {
  if (non_finite != 0) return std::bit_cast<double>(std::uint64_t{0x7ff8000000000000});
  // Carry into canonical digits 0 .. 2^32-1 below a signed top digit.
  std::array<std::int64_t, kBins> digit = bins;
  for (std::size_t i = 0; i + 1 < kBins; ++i) {
    const std::int64_t carry = digit[i] >> 32;  // floor division
    digit[i] -= carry * (std::int64_t{1} << 32);
    digit[i + 1] += carry;
  }
  const bool negative = digit[kBins - 1] < 0;
  if (negative) {
    for (auto& d : digit) d = -d;
    for (std::size_t i = 0; i + 1 < kBins; ++i) {
      const std::int64_t carry = digit[i] >> 32;
      digit[i] -= carry * (std::int64_t{1} << 32);
      digit[i + 1] += carry;
    }
  }
  int top = kBins - 1;
  while (top >= 0 && digit[static_cast<std::size_t>(top)] == 0) --top;
  if (top < 0) return 0.0;
  // The upper 96 bits and a sticky bit decide the correctly rounded result.
  detail::Wide head = 0;
  for (int i = top; i > top - 3; --i) {
    head = (head << 32) | (i >= 0 ? static_cast<std::uint64_t>(digit[static_cast<std::size_t>(i)]) : 0u);
  }
  bool sticky = false;
  for (int i = top - 3; i >= 0; --i) sticky = sticky || digit[static_cast<std::size_t>(i)] != 0;
  int scale = detail::kLowestExponent + 32 * (top - 2);
  while ((head >> 64) != 0) {  // to 64 bits, keeping the dropped bits as sticky
    sticky = sticky || (head & 1u) != 0;
    head >>= 1;
    ++scale;
  }
  auto low = static_cast<std::uint64_t>(head);
  if (sticky) low |= 1u;  // below the rounding position: low has 64 bits, a double keeps 53
  const double magnitude = std::ldexp(static_cast<double>(low), scale);
  return negative ? -magnitude : magnitude;
}

}  // namespace tessera
