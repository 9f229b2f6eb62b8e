#pragma once
// Runs of tokens of a source, of which samples are made.

#include <boost/container/small_vector.hpp>
#include <cstdint>

namespace tessera {

/// A run of tokens of a source.
struct TokenRange {
  std::int64_t first = 0, count = 0;
  bool operator==(const TokenRange&) const = default;
};

/// The tokens of a sample, end to end: one range, or with data.packing = documents one for each document. The first
/// token of a range is not predicted from the range before.
using TokenRanges = boost::container::small_vector<TokenRange, 1>;

}  // namespace tessera
