#include "tessera/base/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace tessera {

namespace {
__extension__ typedef unsigned __int128 Wide;

constexpr int kLowestExponent = -1074;  // weight of bin 0's lowest bit: the smallest subnormal
}  // namespace

void ExactSum::add(double term) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const int biased = static_cast<int>((bits >> 52) & 0x7ff);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (biased == 0x7ff) {
    ++non_finite;
    return;
  }
  if (biased == 0 && mantissa == 0) return;
  int shift = 0;  // position of the mantissa's lowest bit above kLowestExponent
  if (biased != 0) {
    mantissa |= std::uint64_t{1} << 52;
    shift = biased - 1;
  }
  const int bin = shift / 32;
  const int offset = shift % 32;
  const std::int64_t sign = (bits >> 63) ? -1 : 1;
  // 53 bits shifted by up to 31 span three windows of 32 bits.
  const Wide wide = static_cast<Wide>(mantissa) << offset;
  bins[static_cast<std::size_t>(bin)] +=
      sign * static_cast<std::int64_t>(static_cast<std::uint64_t>(wide) & 0xffffffffu);
  bins[static_cast<std::size_t>(bin + 1)] +=
      sign * static_cast<std::int64_t>(static_cast<std::uint64_t>(wide >> 32) & 0xffffffffu);
  bins[static_cast<std::size_t>(bin + 2)] +=
      sign * static_cast<std::int64_t>(static_cast<std::uint64_t>(wide >> 64) & 0xffffffffu);
}

void ExactSum::add(const ExactSum& other) {
  for (std::size_t i = 0; i < kBins; ++i) bins[i] += other.bins[i];
  non_finite += other.non_finite;
}

double ExactSum::value() const {
  if (non_finite != 0) return std::numeric_limits<double>::quiet_NaN();
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
  Wide head = 0;
  for (int i = top; i > top - 3; --i) {
    head = (head << 32) | (i >= 0 ? static_cast<std::uint64_t>(digit[static_cast<std::size_t>(i)]) : 0u);
  }
  bool sticky = false;
  for (int i = top - 3; i >= 0; --i) sticky = sticky || digit[static_cast<std::size_t>(i)] != 0;
  int scale = kLowestExponent + 32 * (top - 2);
  while ((head >> 64) != 0) {  // to 64 bits, keeping what falls off as sticky
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
