#include <algorithm>
#include <functional>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/dropout_mask.hpp"
#include "kernels/cpu/gradient_row.hpp"
#include "kernels/cpu/tile_matmul.hpp"
#include "kernels/tiling.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kFewestTiles = 8;
constexpr std::int64_t kFewestInputTiles = 2;  ///< of a backward whose weight's tiles follow in the same loop

/// Returns the factor of a matmul's sums: that of the linear, and those of two operands in fp8.
float factor_of(float scale, const Fp8Operand& left, const Fp8Operand& right) {
  return left ? scale * *left.factor * *right.factor : scale;
}

/// Returns what is multiplied.
const ConstView& either(const ConstView& exact, const Fp8Operand& rounded) { return rounded ? rounded.view : exact; }

/// Tiles of activations [tokens, columns]: as big as a matmul's speed needs, but at least `fewest` if the shape allows.
struct ActivationTiles {
  ActivationTiles(std::int64_t tokens, std::int64_t width, std::int64_t fewest)
      : ActivationTiles(tokens, width, kTileRows, kTileColumns) {
    if (count() < fewest) *this = ActivationTiles(tokens, width, kTileRows, kTileColumns / 2);
    if (count() < fewest) *this = ActivationTiles(tokens, width, kTileRows / 2, kTileColumns / 2);
  }
  std::int64_t count() const { return rows.count() * columns.count(); }
  Tile row_tile(std::int64_t task) const { return rows[task % rows.count()]; }
  Tile column_tile(std::int64_t task) const { return columns[task / rows.count()]; }
  Tiling rows, columns;

 private:
  ActivationTiles(std::int64_t tokens, std::int64_t width, std::int64_t row_target, std::int64_t column_target)
      : rows(Tiling::balanced(tokens, row_target, 16)), columns(Tiling::balanced(width, column_target, 64)) {}
};

/// Tiles of a weight as it is stored.
struct WeightTiles {
  WeightTiles(std::int64_t height, std::int64_t width)
      : rows(Tiling::balanced(height, kTileRows, 16)), columns(Tiling::balanced(width, kTileColumns, 64)) {}
  std::int64_t count() const { return rows.count() * columns.count(); }
  Tile row_tile(std::int64_t task) const { return rows[task / columns.count()]; }
  Tile column_tile(std::int64_t task) const { return columns[task % columns.count()]; }
  Tiling rows, columns;
};

const void* at_or_null(const ConstView& view, std::int64_t row, std::int64_t column) {
  return view ? view.at(row, column) : nullptr;
}
void* at_or_null(const View& view, std::int64_t row, std::int64_t column) {
  return view ? view.at(row, column) : nullptr;
}

/// The tasks of one LinearBackward, in one list so that threads run dry only once.
class LinearBackwardTasks {
 public:
  LinearBackwardTasks(const VectorKernels& vector, const LinearBackward& a)
      : vector_(vector),
        a_(a),
        input_(a.tokens, a.in, a.weight_gradient ? kFewestInputTiles : kFewestTiles),
        weight_(a.layout == WeightLayout::in_out ? WeightTiles(a.in, a.out) : WeightTiles(a.out, a.in)),
        bias_(Tiling::of_size(a.out, 256)),
        input_tasks_(a.input_gradient ? input_.count() : 0),
        weight_tasks_(a.weight_gradient ? weight_.count() : 0),
        bias_tasks_(a.bias_gradient ? bias_.count() : 0) {}

  std::int64_t count() const { return input_tasks_ + weight_tasks_ + bias_tasks_; }

  void run(std::int64_t task, ScratchLayout scratch) const {
    if (task < input_tasks_) return input_gradient(task, scratch);
    task -= input_tasks_;
    if (task < weight_tasks_) return weight_gradient(task, scratch);
    bias_gradient(bias_[task - weight_tasks_], scratch);
  }

 private:
  /// Computes d input = or += mask * scale * d output W^T, taken through the GELU that made the input.
  void input_gradient(std::int64_t task, ScratchLayout scratch) const {
    const Tile rows = input_.row_tile(task), columns = input_.column_tile(task);
    const Operand gradient{either(a_.output_gradient, a_.gradient8), false};
    const Operand weight{either(a_.weight, a_.weight8), a_.layout == WeightLayout::in_out};
    auto* c = scratch.take<float>(rows.size() * columns.size());
    tile_matmul(vector_, scratch, gradient.from(rows.begin, 0), weight.from(0, columns.begin), rows.size(),
                columns.size(), a_.out, false, c, columns.size());
    const float factor = factor_of(a_.scale, a_.gradient8, a_.weight8);
    if (factor != 1) vector_.scale(c, factor, rows.size() * columns.size());
    const int type = storage_index(a_.input_gradient.dtype);
    auto* other = a_.input_dropout.on() || a_.input_adds ? scratch.take<float>(columns.size()) : nullptr;
    for (std::int64_t row = rows.begin; row < rows.end; ++row, c += columns.size()) {
      void* out = a_.input_gradient.at(row, columns.begin);
      if (a_.input_dropout.on()) {
        DropoutMask(a_.input_dropout).fill_row(row, a_.in, columns.begin, columns.size(), other);
        vector_.multiply(c, other, c, columns.size());
      }
      if (a_.before_gelu) {
        if (a_.input_adds) {
          vector_.to_float[type](out, other, columns.size());
          std::transform(c, c + columns.size(), other, c, std::plus());
        }
        vector_.gelu_backward[type](c, a_.before_gelu.at(row, columns.begin), out, columns.size());
      } else {
        write_gradient_row(vector_, {a_.input_gradient, a_.input_adds}, row, columns.begin, c, columns.size());
      }
    }
  }

  /// Computes d W = input^T d output ([in, out]) or d output^T input ([out, in]).
  void weight_gradient(std::int64_t task, ScratchLayout scratch) const {
    const Tile rows = weight_.row_tile(task), columns = weight_.column_tile(task);
    const bool in_out = a_.layout == WeightLayout::in_out;
    const ConstView& input = either(a_.input, a_.input8);
    const ConstView& output_gradient = either(a_.output_gradient, a_.gradient8);
    const Operand left{in_out ? input : output_gradient, true}, right{in_out ? output_gradient : input, false};
    const GradientView& gradient = a_.weight_gradient;
    const bool direct = gradient.view.dtype == DType::fp32 && !gradient.adds;
    auto* c = direct ? static_cast<float*>(gradient.view.at(rows.begin, columns.begin))
                     : scratch.take<float>(rows.size() * columns.size());
    const std::int64_t stride = direct ? gradient.view.stride : columns.size();
    tile_matmul(vector_, scratch, left.from(rows.begin, 0), right.from(0, columns.begin), rows.size(), columns.size(),
                a_.tokens, false, c, stride);
    const float factor = factor_of(a_.scale, a_.gradient8, a_.input8);
    for (std::int64_t row = 0; factor != 1 && row < rows.size(); ++row)
      vector_.scale(c + row * stride, factor, columns.size());
    if (direct) return;
    for (std::int64_t row = rows.begin; row < rows.end; ++row, c += stride) {
      write_gradient_row(vector_, gradient, row, columns.begin, c, columns.size());
    }
  }

  void bias_gradient(const Tile& columns, ScratchLayout scratch) const {
    auto* sums = scratch.take<float>(columns.size());
    const ConstView& gradient = a_.output_gradient;
    vector_.column_sums[storage_index(gradient.dtype)](gradient.at(0, columns.begin), gradient.stride, a_.tokens,
                                                       columns.size(), sums);
    write_gradient_row(vector_, a_.bias_gradient, 0, columns.begin, sums, columns.size());
  }

  const VectorKernels& vector_;
  const LinearBackward& a_;
  ActivationTiles input_;
  WeightTiles weight_;
  Tiling bias_;
  std::int64_t input_tasks_, weight_tasks_, bias_tasks_;
};

}  // namespace

void CpuKernels::compute(const LinearForward& a) {
  const int type = storage_index(a.output ? a.output.dtype : a.activated.dtype);
  const ActivationTiles tiles(a.tokens, a.out, kFewestTiles);
  const float factor = factor_of(a.scale, a.input8, a.weight8);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int worker) {
    const Tile rows = tiles.row_tile(task), columns = tiles.column_tile(task);
    const Operand input{either(a.input, a.input8), false};
    const Operand weight{either(a.weight, a.weight8), a.layout == WeightLayout::out_in};
    ScratchLayout scratch = scratch_of(worker);
    auto* mask = a.dropout.on() ? scratch.take<float>(columns.size()) : nullptr;
    auto* c = scratch.take<float>(rows.size() * columns.size());
    tile_matmul(vector_, scratch, input.from(rows.begin, 0), weight.from(0, columns.begin), rows.size(), columns.size(),
                a.in, false, c, columns.size());
    if (factor != 1) vector_.scale(c, factor, rows.size() * columns.size());
    for (std::int64_t row = rows.begin; row < rows.end; ++row, c += columns.size()) {
      if (mask != nullptr) DropoutMask(a.dropout).fill_row(row, a.out, columns.begin, columns.size(), mask);
      vector_.linear_epilogue[type](
          c, at_or_null(a.bias, 0, columns.begin), mask, at_or_null(a.residual, row, columns.begin),
          at_or_null(a.output, row, columns.begin), at_or_null(a.activated, row, columns.begin), columns.size());
      if (a.activated) raise(a.largest, a.activated.rows_from(row).columns_from(columns.begin), columns.size());
    }
  });
}

void CpuKernels::compute(const LinearBackward& a) {
  const LinearBackwardTasks tasks(vector_, a);
  pool_.parallel_for(tasks.count(), [&](std::int64_t task, int worker) { tasks.run(task, scratch_of(worker)); });
}

void CpuKernels::compute(const GeluForward& a) {
  const int type = storage_index(a.input.dtype);
  const Tiling tiles = Tiling::of_size(a.rows, 16);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    for (std::int64_t row = tiles[task].begin; row < tiles[task].end; ++row) {
      vector_.gelu[type](a.input.at(row), a.output.at(row), a.columns);
      raise(a.largest, a.output.rows_from(row), a.columns);
    }
  });
}

}  // namespace tessera
