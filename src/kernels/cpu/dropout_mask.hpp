#pragma once
// Dropout masks from counters (Philox): nothing is stored; forward and backward compute the same mask.

#include <array>
#include <cstdint>

#include "tessera/kernels/arguments/dropout.hpp"

namespace tessera {

class DropoutMask {
 public:
  /// Reads seed and step of `dropout`, which must be on.
  explicit DropoutMask(const Dropout& dropout);

  /// Fills mask[i] = 0 or 1/(1-p) for elements first .. first + n of a sample (numbered from the micro-batch's first).
  void fill(std::int64_t sample, std::uint64_t first, std::int64_t n, float* mask) const;
  /// Fills mask[i] = 0 or 1/(1-p) for the probabilities of one query and keys first .. first + n.
  void fill_probabilities(std::int64_t sample, std::int64_t head, std::int64_t query, std::int64_t first,
                          std::int64_t n, float* mask) const;
  /// The same as fill for columns [column, column + n) of row `row` of a [tokens, width] matrix.
  void fill_row(std::int64_t row, std::int64_t width, std::int64_t column, std::int64_t n, float* mask) const;

 private:
  /// Returns the key of one sample's masks.
  std::uint64_t key_of(std::int64_t sample) const;
  std::array<std::uint32_t, 4> block(std::uint64_t key, std::uint64_t number) const;
  float mask_of(std::uint32_t bits) const;

  Dropout dropout_;
  float kept_;
  std::uint32_t site_;
};

}  // namespace tessera
