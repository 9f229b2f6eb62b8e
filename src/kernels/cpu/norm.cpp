#include <cstring>

#include "kernels/cpu/cpu_kernels.hpp"
#include "kernels/cpu/gradient_row.hpp"
#include "kernels/cpu/layouts.hpp"

namespace tessera {

void CpuKernels::compute(const NormForward& a) {
  TESSERA_ASSERT(!a.bias || !a.residual, "a norm with a bias cannot be added to a residual");
  const int type = storage_index(a.input.dtype);
  const Tiling tiles = Tiling::of_size(a.tokens, 32);
  pool_.parallel_for(tiles.count(), [&](std::int64_t task, int) {
    for (std::int64_t t = tiles[task].begin; t < tiles[task].end; ++t) {
      float mean = 0.0f;
      vector_.norm_statistics[type](a.input.at(t), a.width, a.subtract_mean, a.epsilon, &mean,
                                    &a.reciprocal_deviation[t]);
      if (a.subtract_mean) a.mean[t] = mean;
      if (!a.output) continue;
      vector_.norm_apply[type](a.input.at(t), mean, a.reciprocal_deviation[t], a.gain.data, a.gain_offset,
                               a.residual ? a.residual.at(t) : a.bias.data, a.output.at(t), a.width);
      raise(a.largest, a.output.rows_from(t), a.width);
    }
  });
}

namespace {

/// Sums the groups' rows [groups, width] in order, columns of one tile, and writes the gradient.
void finish_column_gradient(const VectorKernels& vector, const float* groups, std::int64_t count, std::int64_t width,
                            const Tile& columns, const GradientView& gradient, ScratchLayout scratch) {
  auto* sum = scratch.take<float>(columns.size());
  vector.column_sums[StorageIndex::fp32](groups + columns.begin, width, count, columns.size(), sum);
  write_gradient_row(vector, gradient, 0, columns.begin, sum, columns.size());
}

}  // namespace

void CpuKernels::compute(const NormBackward& a) {
  TESSERA_ASSERT(!a.input_gradient_sums, "norm backward on a CPU makes no sums of its input's gradient");
  const int type = storage_index(a.input.dtype);
  ScratchLayout scratch(a.scratch, cpu_kernel_needs().norm_backward(a.tokens, a.width));
  const NormBackwardLayout layout(scratch, a.tokens, a.width);
  const bool with_bias = static_cast<bool>(a.bias_gradient);
  pool_.parallel_for(layout.groups.count(), [&](std::int64_t group, int) {
    float* gain_sums = layout.gain_sums + group * a.width;
    float* bias_sums = with_bias ? layout.bias_sums + group * a.width : nullptr;
    std::memset(gain_sums, 0, static_cast<std::size_t>(a.width) * sizeof(float));
    if (with_bias) std::memset(bias_sums, 0, static_cast<std::size_t>(a.width) * sizeof(float));
    for (std::int64_t t = layout.groups[group].begin; t < layout.groups[group].end; ++t) {
      vector_.norm_backward[type](a.input.at(t), a.output_gradient.at(t), a.subtract_mean ? a.mean[t] : 0.0f,
                                  a.reciprocal_deviation[t], a.subtract_mean, a.gain.data, a.gain_offset,
                                  a.input_gradient.at(t), a.input_adds, gain_sums, bias_sums, a.width);
      raise(a.gradient_largest, a.input_gradient.rows_from(t), a.width);
      if (!a.normalized) continue;
      vector_.norm_apply[type](a.input.at(t), a.subtract_mean ? a.mean[t] : 0.0f, a.reciprocal_deviation[t],
                               a.gain.data, a.gain_offset, a.bias.data, a.normalized.at(t), a.width);
      raise(a.normalized_largest, a.normalized.rows_from(t), a.width);
    }
  });
  const Tiling columns = Tiling::of_size(a.width, 256);
  pool_.parallel_for(columns.count(), [&](std::int64_t task, int worker) {
    const auto finish = [&](const float* sums, const GradientView& gradient) {
      if (!gradient) return;
      finish_column_gradient(vector_, sums, layout.groups.count(), a.width, columns[task], gradient,
                             scratch_of(worker));
    };
    finish(layout.gain_sums, a.gain_gradient);
    finish(layout.bias_sums, a.bias_gradient);
  });
}

}  // namespace tessera
