#pragma once
// A sum of doubles that does not depend on the order of its terms: fixed bins of 32 bits each over the whole range of
// double, 64-bit integers inside, so that ranks add their bins as integers (one all-reduce) and every split of the
// terms gives the same bits. (The idea: Kulisch's long accumulator; Demmel & Nguyen, "Reproducible summation".)

#include <array>
#include <cstdint>

namespace tessera {

/// Plain data: may live in a planned buffer, be zeroed by memset and be summed bin by bin over ranks.
/// Holds up to 2^30 terms of either sign before a bin could overflow.
struct ExactSum {
  static constexpr int kBins = 68;  ///< 32-bit windows over exponents 2^-1074 .. 2^1101
  std::array<std::int64_t, kBins> bins;
  std::int64_t non_finite;  ///< how many terms were NaN or infinite; value() is NaN when > 0

  void clear() { bins.fill(0), non_finite = 0; }
  void add(double term);
  void add(const ExactSum& other);
  /// The exact sum rounded once to double (NaN if a term was not finite).
  double value() const;
};
static_assert(sizeof(ExactSum) == (ExactSum::kBins + 1) * sizeof(std::int64_t));

}  // namespace tessera
