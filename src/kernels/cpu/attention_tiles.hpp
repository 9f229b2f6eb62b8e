#pragma once
// Common parts of attention's forward and backward: tiles of queries and keys, and the causal bound.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/storage.hpp"
#include "kernels/cpu/tile_matmul.hpp"
#include "kernels/tiling.hpp"
#include "tessera/kernels/arguments.hpp"

namespace tessera {

inline constexpr std::int64_t kQueryTile = 64, kKeyTile = 64;

inline float score_scale(const AttentionShape& shape) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_width)));
}

/// Returns `count` rows of one head from `row` on as an operand of matmuls: in place, or as fp32 in scratch.
inline ConstView head_rows_at(const VectorKernels& vector, ScratchLayout& scratch, const ConstView& matrix,
                              std::int64_t head_width, std::int64_t row, std::int64_t count, std::int64_t head) {
  const ConstView rows = matrix.rows_from(row).columns_from(head * head_width);
  if (multiplies(rows.dtype)) return rows;
  auto* copy = scratch.take<float>(count * head_width);
  for (std::int64_t i = 0; i < count; ++i) {
    vector.to_float[storage_index(rows.dtype)](rows.at(i), copy + i * head_width, head_width);
  }
  return {copy, DType::fp32, head_width};
}

/// Returns rows [begin, end) of one head of one sequence likewise.
inline ConstView head_rows(const VectorKernels& vector, ScratchLayout& scratch, const ConstView& matrix,
                           const AttentionShape& shape, std::int64_t sequence, std::int64_t head, const Tile& tile) {
  return head_rows_at(vector, scratch, matrix, shape.head_width, sequence * shape.sequence + tile.begin, tile.size(),
                      head);
}

/// Returns a finished tile of scores or of their gradients as the operand that matches `rows`. That is fp32 in place,
/// or rounded to bf16 in scratch (FlashAttention's choice too).
inline ConstView score_operand(const VectorKernels& vector, ScratchLayout& scratch, const float* scores,
                               std::int64_t queries, std::int64_t keys, const ConstView& rows) {
  if (rows.dtype == DType::fp32) return {scores, DType::fp32, keys};
  auto* rounded = scratch.take<std::uint16_t>(queries * keys);
  vector.from_float[storage_index(rows.dtype)](scores, rounded, queries * keys);
  return {rounded, rows.dtype, keys};
}

/// Returns how many keys of `keys` query `position` sees.
inline std::int64_t visible_keys(std::int64_t position, const Tile& keys) {
  return std::clamp<std::int64_t>(position + 1 - keys.begin, 0, keys.size());
}

/// Zeros the scores that the causal mask hides.
inline void clear_hidden(float* row, std::int64_t visible, std::int64_t keys) {
  if (visible < keys) std::memset(row + visible, 0, static_cast<std::size_t>(keys - visible) * sizeof(float));
}

}  // namespace tessera
