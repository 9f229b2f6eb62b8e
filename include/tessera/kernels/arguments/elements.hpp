#pragma once
// Calls on elements of any meaning: casts, sums and checksums.

#include <cstdint>

#include "tessera/base/exact_sum.hpp"
#include "tessera/kernels/views.hpp"

namespace tessera {

/// to[i] = from[i] in another type (or the same: a copy). Cores also take e4m3, whose numbers `from` has then.
struct Cast {
  ConstView from;
  View to;
  std::int64_t elements = 0;
};

struct FillZero {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// out[i] = a[i] + b[i] in fp32, rounded once; out may be a or b.
struct Add {
  ConstView a, b;
  View out;
  std::int64_t elements = 0;
};

/// Adds the sum of squares of x to *sum. Chunks of 64 elements are summed in double in one fixed order, and the chunks
/// exactly, so that the result is the same for every split of x at multiples of 64. A chunk with NaN or infinity counts
/// as non_finite.
struct SquareSum {
  ConstView x;
  std::int64_t elements = 0;
  ExactSum* sum = nullptr;
};

/// The weight of word i of 32 bits in a checksum, which is the sum of word * weight mod 2^64. Weights are odd, so that
/// one flipped bit always changes the sum; they differ, so that words cannot change places. A sum has no order.
constexpr std::uint64_t checksum_weight(std::int64_t i) { return 2 * static_cast<std::uint64_t>(i) + 1; }

/// Adds the checksum of `words` words of 32 bits, numbered from `first` on, to *sum.
struct AddChecksum {
  const void* data = nullptr;
  std::int64_t words = 0, first = 0;
  std::uint64_t* sum = nullptr;
};

}  // namespace tessera
