#pragma once
// What forward and backward of attention share: tiles of queries and keys, and the causal bound.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/storage.hpp"
#include "kernels/cpu/tile_product.hpp"
#include "kernels/tiling.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

inline constexpr std::int64_t kQueryTile = 64, kKeyTile = 64;

inline float score_scale(const AttentionShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_width)));
}

/// Rows [begin, end) of one head of one sequence as an fp32 matrix: in place, or converted into scratch.
inline ConstView head_rows(const VectorKernels& vector, Carver& scratch, const ConstView& matrix,
                           const AttentionShape& shape, std::int64_t sequence, std::int64_t head, const Tile& tile) {
  const ConstView rows = matrix.rows_from(sequence * shape.sequence + tile.begin).columns_from(head * shape.head_width);
  if (rows.dtype == DType::fp32) return rows;
  auto* copy = scratch.take<float>(tile.size() * shape.head_width);
  for (std::int64_t i = 0; i < tile.size(); ++i) {
    vector.to_float[storage_index(rows.dtype)](rows.at(i), copy + i * shape.head_width, shape.head_width);
  }
  return {copy, DType::fp32, shape.head_width};
}

/// How many keys of `keys` query `position` sees.
inline std::int64_t visible_keys(std::int64_t position, const Tile& keys) {
  return std::clamp<std::int64_t>(position + 1 - keys.begin, 0, keys.size());
}

/// Zeros the scores that the causal mask hides.
inline void clear_hidden(float* row, std::int64_t visible, std::int64_t keys) {
  if (visible < keys) std::memset(row + visible, 0, static_cast<std::size_t>(keys - visible) * sizeof(float));
}

}  // namespace tessera
