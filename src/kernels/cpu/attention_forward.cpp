// Causal attention forward: a task is one tile of queries of one head; it walks the tiles of keys with an online
// softmax.

#include "kernels/cpu/attention_tiles.hpp"
#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/dropout_mask.hpp"

namespace tessera {

namespace {

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

  void run(std::int64_t sequence, std::int64_t head, const Tile& queries) {
    ScratchLayout scratch = scratch_;
    const ConstView query = head_rows(vector_, scratch, a_.query, a_.shape, sequence, head, queries);
    const Tiling key_tiles = Tiling::of_size(queries.end, kKeyTile);  // later keys are hidden from all of these queries
    for (std::int64_t i = 0; i < queries.size(); ++i) maximum_[i] = -3.0e38f, sum_[i] = 0;
    for (std::int64_t t = 0; t < key_tiles.count(); ++t)
      add_keys(sequence, head, queries, key_tiles[t], t == 0, query, scratch);
    finish(sequence, head, queries);
  }

 private:
  /// Computes output = shrink * output + softmax tile * values.
  void add_keys(std::int64_t sequence, std::int64_t head, const Tile& queries, const Tile& keys, bool first,
                const ConstView& query, ScratchLayout scratch) {
    const std::int64_t kv_head = head / (a_.shape.heads / a_.shape.kv_heads);
    const ConstView key = head_rows(vector_, scratch, a_.key, a_.shape, sequence, kv_head, keys);
    const ConstView value = head_rows(vector_, scratch, a_.value, a_.shape, sequence, kv_head, keys);
    tile_matmul(vector_, scratch, {query, false}, {key, true}, queries.size(), keys.size(), width_, false, scores_,
                keys.size());
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      float* row = scores_ + i * keys.size();
      const std::int64_t visible = visible_keys(queries.begin + i, keys);
      if (visible > 0) {
        const float shrink = vector_.softmax_online(row, visible, score_scale(a_.shape), &maximum_[i], &sum_[i]);
        if (!first) vector_.scale(output_ + i * width_, shrink, width_);
      }
      clear_hidden(row, visible, keys.size());
      if (a_.dropout.on()) {
        DropoutMask(a_.dropout).fill_probabilities(sequence, head, queries.begin + i, keys.begin, visible, mask_);
        vector_.multiply(row, mask_, row, visible);
      }
    }
    const ConstView probabilities = score_operand(vector_, scratch, scores_, queries.size(), keys.size(), value);
    tile_matmul(vector_, scratch, {probabilities, false}, {value, false}, queries.size(), width_, keys.size(), !first,
                output_, width_);
  }

  void finish(std::int64_t sequence, std::int64_t head, const Tile& queries) {
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      const std::int64_t position = queries.begin + i;
      float* row = output_ + i * width_;
      vector_.scale(row, 1.0f / sum_[i], width_);
      vector_.from_float[storage_index(a_.output.dtype)](
          row, a_.output.at(sequence * a_.shape.sequence + position, head * width_), width_);
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

void CpuKernels::attention_forward(Stream&, const AttentionForward& a) {
  const Tiling query_tiles = Tiling::of_size(a.shape.sequence, kQueryTile);
  const std::int64_t heads = a.shape.batch * a.shape.heads;
  pool_.parallel_for(query_tiles.count() * heads, [&](std::int64_t task, int worker) {
    const std::int64_t tile = query_tiles.count() - 1 - task / heads;  // the longest first
    const std::int64_t head = task % heads;
    ForwardTask(vector_, a, scratch_of(worker)).run(head / a.shape.heads, head % a.shape.heads, query_tiles[tile]);
  });
}

}  // namespace tessera
