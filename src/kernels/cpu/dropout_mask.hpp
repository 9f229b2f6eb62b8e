#pragma once
// Dropout masks from counters (Philox): nothing is stored, forward and backward make the same mask again.

#include <cstdint>

#include "tessera/kernels/arguments.hpp"

namespace tessera {

class DropoutMask {
 public:
  /// Reads seed and step of `dropout`, which must be on.
  explicit DropoutMask(const Dropout& dropout);

  /// mask[i] = 0 or 1/(1-p) for elements first .. first + n of a sample (numbered from the micro-batch's first).
  void fill(std::int64_t sample, std::uint64_t first, std::int64_t n, float* mask) const;
  /// The same for columns [column, column + n) of row `row` of a [tokens, width] matrix.
  void fill_row(std::int64_t row, std::int64_t width, std::int64_t column, std::int64_t n, float* mask) const;

 private:
  Dropout dropout_;
  float kept_;
  std::uint32_t site_;
};

}  // namespace tessera
