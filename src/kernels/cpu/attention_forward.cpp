// Causal attention forward: a task is one tile of queries of one head; it walks the tiles of keys with an online
// softmax. Over a cache it is the same task, with queries and keys in different matrices.

#include <cstring>
#include <limits>

#include "kernels/cpu/attention_tiles.hpp"
#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/dropout_mask.hpp"

namespace tessera {

namespace {

/// Where the rows of a sequence are: the row of its position 0 in queries and output, and in keys and values. These
/// begin again there after `ring` positions.
struct SequenceRows {
  std::int64_t query = 0, key = 0;
  std::int64_t ring = std::numeric_limits<std::int64_t>::max();
};

class ForwardTask {
 public:
  ForwardTask(const VectorKernels& vector, const AttentionForward& a, ScratchLayout scratch)
      : vector_(vector),
        a_(a),
        width_(a.shape.head_width),
        scores_(scratch.take<float>(kQueryTile * kKeyTile)),
        output_(scratch.take<float>(kQueryTile * width_)),
        maximum_(scratch.take<float>(kQueryTile)),
        sum_(scratch.take<float>(kQueryTile)),
        mask_(scratch.take<float>(kKeyTile)),
        scratch_(scratch) {}

  /// `queries`: positions in the sequence.
  void run(std::int64_t sequence, const SequenceRows& rows, std::int64_t head, const Tile& queries) {
    ScratchLayout scratch = scratch_;
    const ConstView query =
        head_rows_at(vector_, scratch, a_.query, width_, rows.query + queries.begin, queries.size(), head);
    const Tiling key_tiles = Tiling::of_size(queries.end, kKeyTile);  // later keys are hidden from all of these queries
    const std::int64_t first = VisibleKeys(a_.positions, a_.shape, sequence).first_tile(queries);
    for (std::int64_t i = 0; i < queries.size(); ++i) maximum_[i] = -3.0e38f, sum_[i] = 0;
    for (std::int64_t t = first; t < key_tiles.count(); ++t)
      add_keys(sequence, rows, head, queries, key_tiles[t], t == first, query, scratch);
    finish(sequence, rows.query, head, queries);
  }

 private:
  /// Computes output = shrink * output + softmax tile * values.
  void add_keys(std::int64_t sequence, const SequenceRows& rows, std::int64_t head, const Tile& queries,
                const Tile& keys, bool first, const ConstView& query, ScratchLayout scratch) {
    const std::int64_t kv_head = head / (a_.shape.heads / a_.shape.kv_heads);
    const ConstView key = rows_of(a_.key, rows, keys, kv_head, scratch);
    const ConstView value = rows_of(a_.value, rows, keys, kv_head, scratch);
    tile_matmul(vector_, scratch, {query, false}, {key, true}, queries.size(), keys.size(), width_, false, scores_,
                keys.size());
    const VisibleKeys all_visible(a_.positions, a_.shape, sequence);
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      float* row = scores_ + i * keys.size();
      const Tile visible = all_visible.of(queries.begin + i, keys);
      float* seen = row + visible.begin;
      // A row that sees nothing here keeps its maximum and sum, and the matmul adds zeros to its output.
      if (visible.size() > 0) {
        const float shrink =
            vector_.softmax_online(seen, visible.size(), score_scale(a_.shape), &maximum_[i], &sum_[i]);
        if (!first) vector_.scale(output_ + i * width_, shrink, width_);
      }
      clear_hidden(row, visible, keys.size());
      if (a_.dropout.on()) {
        DropoutMask(a_.dropout)
            .fill_probabilities(sequence, head, queries.begin + i, keys.begin + visible.begin, visible.size(), mask_);
        vector_.multiply(seen, mask_, seen, visible.size());
      }
    }
    const ConstView probabilities = score_operand(vector_, scratch, scores_, queries.size(), keys.size(), value);
    tile_matmul(vector_, scratch, {probabilities, false}, {value, false}, queries.size(), width_, keys.size(), !first,
                output_, width_);
  }

  /// Returns a tile of keys or values as an operand of matmuls. Across the end of a ring it is a copy.
  ConstView rows_of(const ConstView& matrix, const SequenceRows& rows, const Tile& keys, std::int64_t kv_head,
                    ScratchLayout& scratch) const {
    const std::int64_t slot = keys.begin % rows.ring, column = kv_head * width_;
    if (slot + keys.size() <= rows.ring)
      return head_rows_at(vector_, scratch, matrix, width_, rows.key + slot, keys.size(), kv_head);
    const std::int64_t bytes = width_ * size_of(matrix.dtype);
    auto* copy = scratch.take<std::byte>(keys.size() * bytes);
    for (std::int64_t i = 0; i < keys.size(); ++i)
      std::memcpy(copy + i * bytes, matrix.at(rows.key + (keys.begin + i) % rows.ring, column),
                  static_cast<std::size_t>(bytes));
    return head_rows_at(vector_, scratch, {copy, matrix.dtype, width_}, width_, 0, keys.size(), 0);
  }

  void finish(std::int64_t sequence, std::int64_t first_query, std::int64_t head, const Tile& queries) {
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      const std::int64_t position = queries.begin + i;
      float* row = output_ + i * width_;
      vector_.scale(row, 1.0f / sum_[i], width_);
      vector_.from_float[storage_index(a_.output.dtype)](row, a_.output.at(first_query + position, head * width_),
                                                         width_);
      if (a_.log_sum_exp == nullptr) continue;
      a_.log_sum_exp[(sequence * a_.shape.heads + head) * a_.shape.sequence + position] =
          static_cast<float>(static_cast<double>(maximum_[i]) + std::log(static_cast<double>(sum_[i])));
    }
  }

  const VectorKernels& vector_;
  const AttentionForward& a_;
  std::int64_t width_;
  float *scores_, *output_, *maximum_, *sum_, *mask_;
  ScratchLayout scratch_;
};

}  // namespace

void CpuKernels::compute(const AttentionForward& a) {
  check_documents(a.positions, a.shape);
  const Tiling query_tiles = Tiling::of_size(a.shape.sequence, kQueryTile);
  const std::int64_t heads = a.shape.batch * a.shape.heads;
  pool_.parallel_for(query_tiles.count() * heads, [&](std::int64_t task, int worker) {
    const std::int64_t tile = query_tiles.count() - 1 - task / heads;  // the longest first
    const std::int64_t head = task % heads;
    const std::int64_t sequence = head / a.shape.heads, row = sequence * a.shape.sequence;
    ForwardTask(vector_, a, scratch_of(worker)).run(sequence, {row, row}, head % a.shape.heads, query_tiles[tile]);
  });
}

namespace {

/// Puts a row's key and value into the cache; a row without a token gets an output of 0.
void append(const AttentionCached& a, std::int64_t sequence, std::int64_t i) {
  const std::int64_t row = sequence * a.shape.sequence + i, size = size_of(a.key.dtype);
  if (i >= a.counts[sequence]) {
    std::memset(a.output.at(row), 0, static_cast<std::size_t>(a.shape.heads * a.shape.head_width * size));
    return;
  }
  const std::int64_t to = sequence * a.limit + (a.positions[sequence * a.shape.sequence] + i) % a.limit;
  const auto bytes = static_cast<std::size_t>(a.shape.kv_heads * a.shape.head_width * size);
  std::memcpy(a.key_cache.at(to), a.key.at(row), bytes);
  std::memcpy(a.value_cache.at(to), a.value.at(row), bytes);
}

}  // namespace

void CpuKernels::compute(const AttentionCached& a) {
  const AttentionShape& shape = a.shape;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t first = a.positions[b * shape.sequence], count = a.counts[b];
    TESSERA_ASSERT(first >= 0 && count >= 0 && count <= shape.sequence && (first + count <= a.limit || a.goes_round()),
                   "sequence {} brings {} tokens from position {} on: {} rows, {} slots, a window of {}", b, count,
                   first, shape.sequence, a.limit, shape.window);
  }
  pool_.parallel_for(shape.batch * shape.sequence,
                     [&](std::int64_t row, int) { append(a, row / shape.sequence, row % shape.sequence); });
  AttentionForward f;
  f.shape = shape;
  f.query = a.query, f.key = a.key_cache, f.value = a.value_cache, f.output = a.output;
  // Tiles are cut at the same positions as without a cache, whatever the first position is.
  const std::int64_t tiles = ceil_div(shape.sequence + kQueryTile - 1, kQueryTile);
  pool_.parallel_for(tiles * shape.batch * shape.heads, [&](std::int64_t task, int worker) {
    const std::int64_t head = task % shape.heads, b = task / shape.heads % shape.batch;
    const std::int64_t first = a.positions[b * shape.sequence], end = first + a.counts[b];
    const std::int64_t tile = (first / kQueryTile + task / (shape.heads * shape.batch)) * kQueryTile;
    const Tile queries{std::max(first, tile), std::min(end, tile + kQueryTile)};
    if (queries.begin >= queries.end) return;
    ForwardTask(vector_, f, scratch_of(worker))
        .run(b, {b * shape.sequence - first, b * a.limit, a.limit}, head, queries);
  });
}

}  // namespace tessera
