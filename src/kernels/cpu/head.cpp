// Final norm, vocabulary matmul and cross-entropy. Per chunk of tokens: logits in tiles, each leaving (maximum, sum of
// exponentials) per row; then the log-sum-exp and loss per row. Then, tile by tile, logits become their own gradient.
// It is multiplied with the table (input gradient, in partial sums over groups of the vocabulary) and with the
// normalised input (table gradient).

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/gradient_row.hpp"
#include "kernels/cpu/layouts.hpp"
#include "kernels/cpu/tile_matmul.hpp"
#include "kernels/final_norm.hpp"

namespace tessera {

namespace {

class HeadChunk {
 public:
  HeadChunk(const VectorKernels& vector, const HeadLoss& a, const HeadLayout& layout, std::int64_t chunk)
      : vector_(vector),
        a_(a),
        layout_(layout),
        tokens_(layout.chunks[chunk]),
        first_(chunk == 0),
        last_(chunk == layout.chunks.count() - 1),
        narrows_(a.input.dtype == DType::bf16 && multiplies(DType::bf16)),
        logit_rows_(Tiling::balanced(tokens_.size(), kTileRows, 16)),
        matmul_rows_(Tiling::balanced(tokens_.size(), layout.vocab_groups.count() < 4 ? 128 : kTileRows, 16)),
        width_tiles_(Tiling::balanced(a.width, kTileColumns, 16)),
        table_rows_(Tiling::balanced(a.vocab, kTileRows, 16)) {}

  std::int64_t logit_tasks() const { return logit_rows_.count() * layout_.logit_columns.count(); }
  std::int64_t matmul_tasks() const { return matmul_rows_.count() * layout_.vocab_groups.count(); }
  std::int64_t table_tasks() const { return table_rows_.count() * width_tiles_.count(); }

  void make_logits(std::int64_t task, ScratchLayout scratch) const {
    const Tile rows = logit_rows_[task % logit_rows_.count()];
    const std::int64_t column_tile = task / logit_rows_.count();
    const Tile columns = layout_.logit_columns[column_tile];
    float* c = logit(rows.begin, columns.begin);
    tile_matmul(vector_, scratch, normalized().from(rows.begin, 0), Operand{a_.table, true}.from(0, columns.begin),
                rows.size(), columns.size(), a_.width, false, c, layout_.logits_stride);
    for (std::int64_t row = rows.begin; row < rows.end; ++row, c += layout_.logits_stride) {
      if (a_.logits != DType::fp32) round_logits(c, columns.size(), scratch);
      const std::int64_t at = row * layout_.logit_columns.count() + column_tile;
      vector_.log_sum_exp_parts(c, columns.size(), &layout_.tile_maximum[at], &layout_.tile_sum[at]);
    }
  }

  /// Computes log-sum-exp and loss of one token, from the tiles in order.
  void finish_row(std::int64_t row) const {
    const std::int64_t tiles = layout_.logit_columns.count();
    const float* maxima = layout_.tile_maximum + row * tiles;
    const float* sums = layout_.tile_sum + row * tiles;
    double top = maxima[0];
    for (std::int64_t i = 1; i < tiles; ++i) top = std::max(top, static_cast<double>(maxima[i]));
    double sum = 0;
    for (std::int64_t i = 0; i < tiles; ++i)
      sum += static_cast<double>(sums[i]) * std::exp(static_cast<double>(maxima[i]) - top);
    const double log_sum_exp = top + std::log(sum);
    layout_.log_sum_exp[row] = static_cast<float>(log_sum_exp);
    layout_.token_loss[row] =
        target(row) == kUncounted ? 0.0 : log_sum_exp - static_cast<double>(*logit(row, target(row)));
    if (a_.token_losses != nullptr) a_.token_losses[tokens_.begin + row] = static_cast<float>(layout_.token_loss[row]);
  }

  /// Returns the sum of the tokens' losses, and adds them to those of their samples.
  double loss() const {
    double sum = 0;
    for (std::int64_t row = 0; row < tokens_.size(); ++row) {
      sum += layout_.token_loss[row];
      if (a_.sample_losses == nullptr) continue;
      a_.sample_losses[(tokens_.begin + row) / (a_.tokens / a_.samples)] += layout_.token_loss[row];
    }
    return sum;
  }

  /// Computes d logits of (rows, group of the vocabulary) in place, rounded to bf16 if bf16 is multiplied. Multiplies
  /// them with the table into the group's partial sum.
  void make_input_gradient(std::int64_t task, ScratchLayout scratch) const {
    const Tile rows = matmul_rows_[task % matmul_rows_.count()];
    const std::int64_t group = task / matmul_rows_.count();
    const Tile vocab = layout_.vocab_groups[group];
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* g = logit(row, vocab.begin);
      if (target(row) == kUncounted) {
        std::fill_n(g, vocab.size(), 0.0F);  // in bf16 too
        continue;
      }
      vector_.softmax_again(g, vocab.size(), 1.0f, layout_.log_sum_exp[row]);
      const std::int64_t place = target(row) - vocab.begin;
      if (place >= 0 && place < vocab.size()) g[place] -= 1.0f;
      vector_.scale(g, a_.scalars->gradient_scale, vocab.size());
      if (narrows_) narrow(g, vocab.size(), scratch);
    }
    const Operand gradient = logit_gradient(rows.begin, vocab, 0);
    const Operand table{a_.table, false};
    float* partial = layout_.partial_gradient + (group * layout_.chunks.largest() + rows.begin) * a_.width;
    for (std::int64_t i = 0; i < width_tiles_.count(); ++i) {
      const Tile columns = width_tiles_[i];
      tile_matmul(vector_, scratch, gradient, table.from(vocab.begin, columns.begin), rows.size(), columns.size(),
                  vocab.size(), false, partial + columns.begin, a_.width);
    }
  }

  /// Sums one row's partial gradients over the groups, in order.
  void sum_input_gradient(std::int64_t row, ScratchLayout scratch) const {
    auto* sum = scratch.take<float>(a_.width);
    vector_.column_sums[StorageIndex::fp32](layout_.partial_gradient + row * a_.width,
                                            layout_.chunks.largest() * a_.width, layout_.vocab_groups.count(), a_.width,
                                            sum);
    vector_.from_float[storage_index(a_.input.dtype)](sum, normalized_gradient().at(tokens_.begin + row), a_.width);
  }

  /// Computes d table = (d logits)^T normalised input: accumulated over chunks in fp32, in the gradient itself if it is
  /// fp32.
  void make_table_gradient(std::int64_t task, ScratchLayout scratch) const {
    const Tile rows = table_rows_[task / width_tiles_.count()];
    const Tile columns = width_tiles_[task % width_tiles_.count()];
    const GradientView& gradient = a_.table_gradient;
    const bool one_chunk = first_ && last_;
    const bool in_place = gradient.view.dtype == DType::fp32 && !(one_chunk && gradient.adds);
    float* c = nullptr;
    std::int64_t stride = a_.width;
    if (in_place) {
      c = static_cast<float*>(gradient.view.at(rows.begin, columns.begin));
      stride = gradient.view.stride;
    } else if (layout_.table_sum != nullptr) {
      c = layout_.table_sum + rows.begin * a_.width + columns.begin;
    } else {
      c = scratch.take<float>(rows.size() * columns.size());
      stride = columns.size();
    }
    const bool adds = !first_ || (in_place && gradient.adds);
    for (std::int64_t group = 0; group < layout_.vocab_groups.count(); ++group) {
      const Tile vocab = layout_.vocab_groups[group];
      const std::int64_t begin = std::max(rows.begin, vocab.begin), end = std::min(rows.end, vocab.end);
      if (begin >= end) continue;
      Operand left = logit_gradient(0, vocab, begin - vocab.begin);
      left.transposed = true;
      tile_matmul(vector_, scratch, left, normalized().from(0, columns.begin), end - begin, columns.size(),
                  tokens_.size(), adds, c + (begin - rows.begin) * stride, stride);
    }
    if (in_place || !last_) return;
    for (std::int64_t row = rows.begin; row < rows.end; ++row, c += stride) {
      write_gradient_row(vector_, gradient, row, columns.begin, c, columns.size());
    }
  }

 private:
  /// Rounds values as a 16-bit type would hold them.
  void round_logits(float* values, std::int64_t count, ScratchLayout scratch) const {
    auto* rounded = scratch.take<std::uint16_t>(count);
    vector_.from_float[storage_index(a_.logits)](values, rounded, count);
    vector_.to_float[storage_index(a_.logits)](rounded, values, count);
  }
  float* logit(std::int64_t row, std::int64_t column) const {
    return layout_.logits + row * layout_.logits_stride + column;
  }
  /// Replaces fp32 values by bf16 ones, from the same address on.
  void narrow(float* values, std::int64_t count, ScratchLayout scratch) const {
    auto* rounded = scratch.take<std::uint16_t>(count);
    vector_.from_float[StorageIndex::bf16](values, rounded, count);
    std::memcpy(values, rounded, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
  }
  /// Returns d logits from (`row`, `column` of the group `vocab`) on, as make_input_gradient left them.
  Operand logit_gradient(std::int64_t row, const Tile& vocab, std::int64_t column) const {
    const DType dtype = narrows_ ? DType::bf16 : DType::fp32;
    const std::int64_t stride = layout_.logits_stride * size_of(DType::fp32) / size_of(dtype);
    return {ConstView{logit(row, vocab.begin), dtype, stride}.columns_from(column), false};
  }
  std::int64_t target(std::int64_t row) const { return a_.targets[tokens_.begin + row]; }
  Operand normalized() const {
    return {ConstView{layout_.normalized, a_.input.dtype, a_.width}.rows_from(tokens_.begin), false};
  }
  View normalized_gradient() const { return {layout_.normalized_gradient, a_.input.dtype, a_.width}; }

  const VectorKernels& vector_;
  const HeadLoss& a_;
  const HeadLayout& layout_;
  Tile tokens_;
  bool first_, last_;
  bool narrows_;  ///< d logits become bf16, one group of the vocabulary at a time
  Tiling logit_rows_, matmul_rows_, width_tiles_, table_rows_;
};

HeadLayout layout_of(const HeadLoss& a) {
  ScratchLayout scratch(a.scratch, cpu_kernel_needs().head(a.shape()));
  return HeadLayout(scratch, a.shape());
}

void check_targets(const HeadLoss& a) {
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const bool good = a.targets[t] == kUncounted || (a.targets[t] >= 0 && a.targets[t] < a.vocab);
    TESSERA_ASSERT(good, "target {} at place {} of the micro-batch: 0 to {}, or {}", a.targets[t], t, a.vocab - 1,
                   kUncounted);
  }
}

}  // namespace

void CpuKernels::compute(const HeadLoss& a) {
  check_targets(a);
  const HeadLayout layout = layout_of(a);
  compute(final_norm(a, layout));
  double loss = 0;
  if (a.sample_losses != nullptr) std::fill_n(a.sample_losses, a.samples, 0.0);
  for (std::int64_t i = 0; i < layout.chunks.count(); ++i) {
    const HeadChunk chunk(vector_, a, layout, i);
    const std::int64_t rows = layout.chunks[i].size();
    pool_.parallel_for(chunk.logit_tasks(),
                       [&](std::int64_t task, int worker) { chunk.make_logits(task, scratch_of(worker)); });
    pool_.parallel_for(rows, [&](std::int64_t row, int) { chunk.finish_row(row); });
    loss += chunk.loss();
    if (!a.training()) continue;
    pool_.parallel_for(chunk.matmul_tasks(),
                       [&](std::int64_t task, int worker) { chunk.make_input_gradient(task, scratch_of(worker)); });
    pool_.parallel_for(rows, [&](std::int64_t row, int worker) { chunk.sum_input_gradient(row, scratch_of(worker)); });
    if (!a.table_gradient) continue;
    pool_.parallel_for(chunk.table_tasks(),
                       [&](std::int64_t task, int worker) { chunk.make_table_gradient(task, scratch_of(worker)); });
  }
  *a.loss = loss;
  if (a.training()) compute(final_norm_backward(a, layout));
}

}  // namespace tessera
