#pragma once
// Common parts of attention's forward and backward: tiles of queries and keys, and which keys a query sees.

#include <algorithm>
#include <cmath>

#include "kernels/cpu/storage.hpp"
#include "kernels/cpu/tile_matmul.hpp"
#include "kernels/tiling.hpp"
#include "tessera/kernels/arguments/attention.hpp"

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

/// The keys that the rows of one sequence see: from the first of a row's document, or of its window, to the row itself.
/// Rows count within the sequence. The first key never falls from row to row.
class VisibleKeys {
 public:
  /// `positions` [batch, sequence] as in AttentionForward.
  VisibleKeys(const std::int32_t* positions, const AttentionShape& shape, std::int64_t sequence)
      : positions_(positions == nullptr ? nullptr : positions + sequence * shape.sequence), window_(shape.window) {}

  std::int64_t first(std::int64_t row) const {
    const std::int64_t of_document = positions_ == nullptr ? 0 : row - positions_[row];
    return window_ == 0 ? of_document : std::max(of_document, row - window_ + 1);
  }
  /// Returns the part of `keys` that a row sees, counted from the tile's begin; may be empty.
  Tile of(std::int64_t row, const Tile& keys) const {
    const std::int64_t begin = std::clamp<std::int64_t>(first(row) - keys.begin, 0, keys.size());
    return {begin, std::clamp<std::int64_t>(row + 1 - keys.begin, begin, keys.size())};
  }
  /// Returns the number of the first tile of keys that any of these queries sees. Tiles are cut without regard to
  /// documents and windows. The tiles before would add exact zeros, so leaving them out keeps the bits.
  std::int64_t first_tile(const Tile& queries) const { return first(queries.begin) / kKeyTile; }

 private:
  const std::int32_t* positions_;
  std::int64_t window_;
};

/// InternalError unless positions count the rows of documents one after the other.
inline void check_documents(const std::int32_t* positions, const AttentionShape& shape) {
  if (positions == nullptr) return;
  for (std::int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
    const std::int64_t next = row % shape.sequence == 0 ? 0 : positions[row - 1] + 1;
    TESSERA_ASSERT(positions[row] == 0 || positions[row] == next, "position {} of row {} of the micro-batch: 0 or {}",
                   positions[row], row, next);
  }
}

/// Zeros the scores that the mask hides.
inline void clear_hidden(float* row, const Tile& visible, std::int64_t keys) {
  std::fill(row, row + visible.begin, 0.0f);
  std::fill(row + visible.end, row + keys, 0.0f);
}

}  // namespace tessera
