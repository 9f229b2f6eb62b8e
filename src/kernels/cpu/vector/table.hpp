// Fills a VectorKernels with the functions of the lanes that were included before.
#pragma once

#include "kernels/cpu/vector/convert_rows.hpp"
#include "kernels/cpu/vector/linear_rows.hpp"
#include "kernels/cpu/vector/norm_rows.hpp"
#include "kernels/cpu/vector/optimizer_rows.hpp"
#include "kernels/cpu/vector/rotary_rows.hpp"
#include "kernels/cpu/vector/softmax_rows.hpp"
#include "kernels/cpu/vector/swiglu_rows.hpp"
#include "kernels/cpu/vector/vector_kernels.hpp"

namespace tessera {
namespace {

// One entry per storage type of a function template (which parentheses would break).
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TESSERA_BY_STORAGE(function) \
  { function<float>, function<StoredBf16>, function<StoredFp16> }
// NOLINTEND(bugprone-macro-parentheses)

constexpr VectorKernels make_table() {
  return {
      .to_float = TESSERA_BY_STORAGE(to_float_row),
      .from_float = TESSERA_BY_STORAGE(from_float_row),
      .add_from_float = TESSERA_BY_STORAGE(add_from_float_row),
      .add = add_row,
      .multiply = multiply_row,
      .scale = scale_row,
      .dot = TESSERA_BY_STORAGE(dot_row),
      .column_sums = TESSERA_BY_STORAGE(column_sums_tile),
      .norm_statistics = TESSERA_BY_STORAGE(norm_statistics_row),
      .norm_apply = TESSERA_BY_STORAGE(norm_apply_row),
      .norm_backward = TESSERA_BY_STORAGE(norm_backward_row),
      .linear_epilogue = TESSERA_BY_STORAGE(linear_epilogue_row),
      .gelu = TESSERA_BY_STORAGE(gelu_row),
      .gelu_backward = TESSERA_BY_STORAGE(gelu_backward_row),
      .rotary = TESSERA_BY_STORAGE(rotary_row),
      .swiglu = TESSERA_BY_STORAGE(swiglu_row),
      .swiglu_backward = TESSERA_BY_STORAGE(swiglu_backward_row),
      .softmax_online = softmax_online_row,
      .softmax_again = softmax_again_row,
      .softmax_backward = softmax_backward_row,
      .log_sum_exp_parts = log_sum_exp_parts_row,
      .adamw = TESSERA_BY_STORAGE(adamw_row),
      .square_chunks = TESSERA_BY_STORAGE(square_chunks_row),
  };
}

#undef TESSERA_BY_STORAGE

}  // namespace
}  // namespace tessera
