#include <algorithm>
#include <numeric>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/dropout_mask.hpp"
#include "kernels/cpu/gradient_row.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

void CpuKernels::compute(const EmbeddingForward& a) {
  const int type = storage_index(a.output.dtype);
  const Tiling tiles = Tiling::of_size(a.batch * a.sequence, 32);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
    ScratchLayout scratch = scratch_of(worker);
    auto* sum = scratch.take<float>(a.width);
    auto* other = scratch.take<float>(a.width);
    for (std::int64_t t = tiles[task].begin; t < tiles[task].end; ++t) {
      const std::int64_t token = a.tokens[t];
      TESSERA_ASSERT(token >= 0 && token < a.vocab, "token {} at place {} of the micro-batch: 0 to {}", token, t,
                     a.vocab - 1);
      vector_.to_float[type](a.token_table.at(token), sum, a.width);
      if (a.scale != 1) vector_.scale(sum, a.scale, a.width);
      if (a.position_table) {
        vector_.to_float[type](a.position_table.at(a.positions != nullptr ? a.positions[t] : t % a.sequence), other,
                               a.width);
        vector_.add(sum, other, sum, a.width);
      }
      if (a.dropout.on()) {
        DropoutMask(a.dropout).fill_row(t, a.width, 0, a.width, other);
        vector_.multiply(sum, other, sum, a.width);
      }
      vector_.from_float[type](sum, a.output.at(t), a.width);
    }
  });
}

namespace {

/// Sums rows of the output gradient (with forward's dropout mask) in fp32.
class GradientRows {
 public:
  GradientRows(const VectorKernels& vector, const EmbeddingBackward& a, ScratchLayout& scratch)
      : vector_(vector),
        a_(a),
        sum_(scratch.take<float>(a.width)),
        row_(scratch.take<float>(a.width)),
        mask_(scratch.take<float>(a.width)) {}

  void start(std::int64_t token) { read(token, sum_); }
  void add(std::int64_t token) {
    read(token, row_);
    vector_.add(sum_, row_, sum_, a_.width);
  }
  /// Computes the sum of rows order[begin] to order[end - 1], of which there is one at least.
  const float* sum_of(const std::int32_t* order, std::int64_t begin, std::int64_t end) {
    start(order[begin]);
    for (std::int64_t i = begin + 1; i < end; ++i) add(order[i]);
    return sum_;
  }
  const float* scaled_sum() {
    if (a_.scale != 1) vector_.scale(sum_, a_.scale, a_.width);
    return sum_;
  }

 private:
  void read(std::int64_t token, float* out) {
    vector_.to_float[storage_index(a_.output_gradient.dtype)](a_.output_gradient.at(token), out, a_.width);
    if (!a_.dropout.on()) return;
    DropoutMask(a_.dropout).fill_row(token, a_.width, 0, a_.width, mask_);
    vector_.multiply(out, mask_, out, a_.width);
  }

  const VectorKernels& vector_;
  const EmbeddingBackward& a_;
  float *sum_, *row_, *mask_;
};

/// Writes the numbers of all rows to `order`, sorted by key, then by number.
template <class Key>
void sort_rows(std::int32_t* order, std::int64_t rows, const Key& key) {
  std::iota(order, order + rows, 0);
  std::sort(order, order + rows,
            [&](std::int32_t x, std::int32_t y) { return key(x) != key(y) ? key(x) < key(y) : x < y; });
}

}  // namespace

void CpuKernels::compute(const EmbeddingBackward& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  if (a.token_gradient) {
    // Positions of the micro-batch sorted by token: all positions of one token are a run, summed by one task in their
    // order.
    auto* order = static_cast<std::int32_t*>(a.scratch);
    sort_rows(order, tokens, [&](std::int32_t row) { return a.tokens[row]; });
    if (!a.token_gradient.adds) {
      compute(FillZero{a.token_gradient.view.data, a.vocab * a.width * size_of(a.token_gradient.view.dtype)});
    }
    const auto token_at = [&](std::int64_t i) { return a.tokens[order[i]]; };
    const Tiling tiles = Tiling::of_size(tokens, 16);
    pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
      ScratchLayout scratch = scratch_of(worker);
      GradientRows rows(vector_, a, scratch);
      std::int64_t i = tiles[task].begin;
      while (i > 0 && i < tiles[task].end && token_at(i) == token_at(i - 1))
        ++i;  // the run belongs to the task it starts in
      while (i < tiles[task].end) {
        const std::int32_t token = token_at(i);
        rows.start(order[i]);
        for (++i; i < tokens && token_at(i) == token; ++i) rows.add(order[i]);
        write_gradient_row(vector_, a.token_gradient, token, 0, rows.scaled_sum(), a.width);
      }
    });
  }
  if (a.position_gradient) {
    // Rows sorted by position, as those above by token. Without documents that order is known.
    auto* order = static_cast<std::int32_t*>(a.scratch);
    const auto position_of = [&](std::int32_t row) {
      return a.positions != nullptr ? a.positions[row] : static_cast<std::int32_t>(row % a.sequence);
    };
    if (a.positions != nullptr) {
      sort_rows(order, tokens, position_of);
    } else {
      for (std::int64_t row = 0; row < tokens; ++row)
        order[row % a.sequence * a.batch + row / a.sequence] = static_cast<std::int32_t>(row);
    }
    pool_.parallel_for(a.context, [&](std::int64_t position, int worker) {
      ScratchLayout scratch = scratch_of(worker);
      const auto run = std::ranges::equal_range(order, order + tokens, position, {}, position_of);
      if (run.empty()) {
        if (a.position_gradient.adds) return;
        auto* zeros = scratch.take<float>(a.width);
        std::fill(zeros, zeros + a.width, 0.0f);
        write_gradient_row(vector_, a.position_gradient, position, 0, zeros, a.width);
        return;
      }
      GradientRows rows(vector_, a, scratch);
      const float* sum = rows.sum_of(order, run.begin() - order, run.end() - order);
      write_gradient_row(vector_, a.position_gradient, position, 0, sum, a.width);
    });
  }
}

}  // namespace tessera
