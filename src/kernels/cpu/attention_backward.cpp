// Causal attention backward (Dao et al. 2022, algorithm 4): a task is one key/value head of one sequence. It walks the
// tiles of keys, and for each the query heads and tiles of queries that see it. Probabilities are recomputed from the
// saved log-sum-exp. With P = softmax, D = rowsum(dO o O):
//   dV += P^T dO;  dS = P o (dO V^T - D) * scale;  dQ += dS K;  dK += dS^T Q.

#include "kernels/cpu/attention_tiles.hpp"
#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/dropout_mask.hpp"
#include "kernels/cpu/layouts.hpp"

namespace tessera {

namespace {

class BackwardTask {
 public:
  BackwardTask(const VectorKernels& vector, const AttentionBackward& a, const AttentionBackwardLayout& layout,
               ScratchLayout scratch)
      : vector_(vector),
        a_(a),
        layout_(layout),
        width_(a.shape.head_width),
        group_(a.shape.heads / a.shape.kv_heads),
        probabilities_(scratch.take<float>(kQueryTile * kKeyTile)),
        gradients_(scratch.take<float>(kQueryTile * kKeyTile)),
        mask_(scratch.take<float>(kQueryTile * kKeyTile)),
        key_gradient_(scratch.take<float>(kKeyTile * width_)),
        value_gradient_(scratch.take<float>(kKeyTile * width_)),
        scratch_(scratch) {}

  void run(std::int64_t sequence, std::int64_t kv_head) {
    const Tiling key_tiles = Tiling::of_size(a_.shape.sequence, kKeyTile);
    const Tiling query_tiles = Tiling::of_size(a_.shape.sequence, kQueryTile);
    const VisibleKeys visible(a_.positions, a_.shape, sequence);
    for (std::int64_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) compute_delta(sequence, head);
    for (std::int64_t k = 0; k < key_tiles.count(); ++k) {
      ScratchLayout scratch = scratch_;
      const Tile keys = key_tiles[k];
      const ConstView key = head_rows(vector_, scratch, a_.key, a_.shape, sequence, kv_head, keys);
      const ConstView value = head_rows(vector_, scratch, a_.value, a_.shape, sequence, kv_head, keys);
      bool first = true;
      for (std::int64_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
        for (std::int64_t q = keys.begin / kQueryTile; q < query_tiles.count(); ++q) {
          const std::int64_t first_tile = visible.first_tile(query_tiles[q]);
          if (first_tile > k) break;  // these queries and all after them see later keys alone
          add_queries(sequence, head, query_tiles[q], keys, key, value, first, k == first_tile, scratch);
          first = false;
        }
      }
      write_rows(key_gradient_, a_.key_gradient, sequence, kv_head, keys);
      write_rows(value_gradient_, a_.value_gradient, sequence, kv_head, keys);
    }
    if (layout_.query_gradient == nullptr) return;
    for (std::int64_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
      for (std::int64_t q = 0; q < a_.shape.sequence; ++q) {
        const View accumulator = query_accumulator(sequence, head, q);
        vector_.from_float[storage_index(a_.query_gradient.dtype)](
            static_cast<const float*>(accumulator.data),
            a_.query_gradient.at(sequence * a_.shape.sequence + q, head * width_), width_);
      }
    }
  }

 private:
  float* delta_of(std::int64_t sequence, std::int64_t head) const {
    return layout_.delta + (sequence * a_.shape.heads + head) * a_.shape.sequence;
  }

  void compute_delta(std::int64_t sequence, std::int64_t head) {
    float* delta = delta_of(sequence, head);
    const int type = storage_index(a_.output.dtype);
    for (std::int64_t i = 0; i < a_.shape.sequence; ++i) {
      const std::int64_t row = sequence * a_.shape.sequence + i;
      delta[i] = vector_.dot[type](a_.output.at(row, head * width_), a_.output_gradient.at(row, head * width_), width_);
    }
  }

  /// Returns the sum of the query gradient over tiles of keys: its own memory in fp32, scratch otherwise.
  View query_accumulator(std::int64_t sequence, std::int64_t head, std::int64_t position) const {
    const View whole = layout_.query_gradient == nullptr
                           ? a_.query_gradient
                           : View{layout_.query_gradient, DType::fp32, a_.shape.heads * width_};
    return whole.rows_from(sequence * a_.shape.sequence + position).columns_from(head * width_);
  }

  void add_queries(std::int64_t sequence, std::int64_t head, const Tile& queries, const Tile& keys,
                   const ConstView& key, const ConstView& value, bool first_of_keys, bool first_of_queries,
                   ScratchLayout scratch) {
    const ConstView query = head_rows(vector_, scratch, a_.query, a_.shape, sequence, head, queries);
    const ConstView upstream = head_rows(vector_, scratch, a_.output_gradient, a_.shape, sequence, head, queries);
    const std::int64_t rows = queries.size(), columns = keys.size();
    tile_matmul(vector_, scratch, {query, false}, {key, true}, rows, columns, width_, false, probabilities_, columns);
    tile_matmul(vector_, scratch, {upstream, false}, {value, true}, rows, columns, width_, false, gradients_, columns);
    make_score_gradients(sequence, head, queries, keys);
    const ConstView p = score_operand(vector_, scratch, probabilities_, rows, columns, upstream);
    const ConstView ds = score_operand(vector_, scratch, gradients_, rows, columns, query);
    const View dq = query_accumulator(sequence, head, queries.begin);
    tile_matmul(vector_, scratch, {p, true}, {upstream, false}, columns, width_, rows, !first_of_keys, value_gradient_,
                width_);
    tile_matmul(vector_, scratch, {ds, true}, {query, false}, columns, width_, rows, !first_of_keys, key_gradient_,
                width_);
    tile_matmul(vector_, scratch, {ds, false}, {key, false}, rows, width_, columns, !first_of_queries,
                static_cast<float*>(dq.data), dq.stride);
  }

  /// Turns scores into probabilities (as dropped out), and d probabilities into d scores.
  void make_score_gradients(std::int64_t sequence, std::int64_t head, const Tile& queries, const Tile& keys) {
    const float* log_sum_exp = a_.log_sum_exp + (sequence * a_.shape.heads + head) * a_.shape.sequence;
    const float* delta = delta_of(sequence, head);
    const float scale = score_scale(a_.shape);
    const VisibleKeys all_visible(a_.positions, a_.shape, sequence);
    for (std::int64_t i = 0; i < queries.size(); ++i) {
      const std::int64_t position = queries.begin + i;
      const Tile visible = all_visible.of(position, keys);
      const std::int64_t count = visible.size();
      clear_hidden(probabilities_ + i * keys.size(), visible, keys.size());
      clear_hidden(gradients_ + i * keys.size(), visible, keys.size());
      float* p = probabilities_ + i * keys.size() + visible.begin;
      float* ds = gradients_ + i * keys.size() + visible.begin;
      vector_.softmax_again(p, count, scale, log_sum_exp[position]);
      if (a_.dropout.on()) {
        DropoutMask(a_.dropout).fill_probabilities(sequence, head, position, keys.begin + visible.begin, count, mask_);
        vector_.multiply(ds, mask_, ds, count);
      }
      vector_.softmax_backward(p, ds, count, delta[position], scale);
      if (a_.dropout.on()) vector_.multiply(p, mask_, p, count);
    }
  }

  void write_rows(const float* rows, const View& out, std::int64_t sequence, std::int64_t kv_head, const Tile& keys) {
    for (std::int64_t i = 0; i < keys.size(); ++i) {
      vector_.from_float[storage_index(out.dtype)](
          rows + i * width_, out.at(sequence * a_.shape.sequence + keys.begin + i, kv_head * width_), width_);
    }
  }

  const VectorKernels& vector_;
  const AttentionBackward& a_;
  const AttentionBackwardLayout& layout_;
  std::int64_t width_, group_;
  float *probabilities_, *gradients_, *mask_, *key_gradient_, *value_gradient_;
  ScratchLayout scratch_;
};

}  // namespace

void CpuKernels::compute(const AttentionBackward& a) {
  check_documents(a.positions, a.shape);
  ScratchLayout scratch(a.scratch, scratch_bytes_of<AttentionBackwardLayout>(a.shape, a.query_gradient.dtype));
  const AttentionBackwardLayout layout(scratch, a.shape, a.query_gradient.dtype);
  pool_.parallel_for(a.shape.batch * a.shape.kv_heads, [&](std::int64_t task, int worker) {
    BackwardTask(vector_, a, layout, scratch_of(worker)).run(task / a.shape.kv_heads, task % a.shape.kv_heads);
  });
}

}  // namespace tessera
