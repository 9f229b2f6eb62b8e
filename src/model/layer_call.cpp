#include "model/layer_call.hpp"

#include <algorithm>
#include <memory>

#include "tessera/base/math.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

using Half = BackwardTurn::Half;

/// The directions of each kind, in the order of LayerKind.
struct Directions {
  void (*forward)(const LayerCall& call);
  void (*backward)(const LayerCall& call, Half half);
};
constexpr Directions kDirections[] = {
    {embedding_forward, embedding_backward}, {norm_forward, norm_backward},           {linear_forward, linear_backward},
    {rotary_forward, rotary_backward},       {attention_forward, attention_backward}, {glu_forward, glu_backward},
    {head_forward, head_backward},
};

const Directions& directions_of(const Layer& layer) { return kDirections[static_cast<std::size_t>(layer.kind)]; }

}  // namespace

SavedFp8::SavedFp8(ScratchLayout& memory, const ModelParts& model, const Matrix& matrix) {
  std::int64_t rows = matrix.rows, columns = matrix.columns;
  if (kernel_needs(model.device).packs_fp8())
    rows = round_up(matrix.columns, kFp8Pad), columns = round_up(matrix.rows, kFp8Pad);
  codes = {memory.take_matrix(rows, columns, DType::e4m3), DType::e4m3, columns};
  numbers = rows * columns;
  factor = memory.take<float>(2);
}

void* PartScratch::note(std::size_t number, std::int64_t bytes) const {
  ScratchPiece& piece = (*noted_)[number];
  piece.bytes = std::max(piece.bytes, bytes);
  if (piece.first_turn < 0) piece.first_turn = turn_;
  piece.last_turn = turn_;
  return nowhere();
}

bool LayerCall::makes_output() const {
  return layer.outputs.empty() ||
         std::ranges::any_of(layer.outputs, [&](const MatrixSlice& slice) { return is_wanted(slice); });
}

std::optional<SavedFp8> LayerCall::saved_input() const {
  if (!layer.is_fp8 || !matrix_of(layer.inputs[0]).is_saved_in_fp8()) return {};
  const auto slot = static_cast<std::size_t>(matrix_of(layer.inputs[0]).slot);
  ScratchLayout memory(buffers.saved[slot], part.saved[slot].elements);
  return SavedFp8(memory, model, matrix_of(layer.inputs[0]));
}

std::optional<SavedFp8> LayerCall::again_in_fp8(const MatrixSlice& slice) const {
  const Matrix& m = matrix_of(slice);
  if (!m.is_again_in_fp8) return {};
  ScratchLayout sizes;
  const SavedFp8 dry(sizes, model, m);
  ScratchLayout memory(scratch.piece(2 * static_cast<std::size_t>(slice.matrix.number()), [&] { return sizes.used(); }),
                       sizes.used());
  return SavedFp8(memory, model, m);
}

Fp8Output LayerCall::gradient_in_fp8(const MatrixSlice& slice) const {
  const Matrix& m = matrix_of(slice);
  if (!m.is_gradient_in_fp8) return {};
  const std::int64_t rows = round_up(m.rows, kFp8Pad), columns = round_up(m.columns, kFp8Pad);
  Fp8Output made;
  made.type = model.fp8->gradients;
  const DType dtype = dtype_of(made.type);
  const auto lay_out = [&](ScratchLayout memory) {
    made.output = {memory.take_matrix(rows, columns, dtype), dtype, columns};
    made.turned = {memory.take_matrix(columns, rows, dtype), dtype, rows};
    made.factor = memory.take<float>(2);
    return memory.used();
  };
  const std::int64_t bytes = lay_out({});
  lay_out({scratch.piece(2 * static_cast<std::size_t>(slice.matrix.number()) + 1, [&] { return bytes; }), bytes});
  return made;
}

View LayerCall::in_scratch(const MatrixSlice& slice, std::size_t piece) const {
  const Matrix& m = matrix_of(slice);
  const std::int64_t stride = std::max(m.columns, m.scratch_stride);
  const View whole{
      scratch.piece(piece, [&] { return checked_multiply(checked_multiply(m.rows, stride), size_of(m.dtype)); }),
      m.dtype, stride};
  return {whole.at(0, slice.offset), m.dtype, m.scratch_stride > 0 ? m.scratch_stride : slice.stride};
}

View LayerCall::view(const MatrixSlice& slice) const {
  const Matrix& m = matrix_of(slice);
  if (m.place == Matrix::Place::scratch) return in_scratch(slice, 2 * static_cast<std::size_t>(slice.matrix.number()));
  const void* const memory = m.place == Matrix::Place::input    ? buffers.input
                             : m.place == Matrix::Place::output ? buffers.output
                             : m.place == Matrix::Place::logits ? buffers.logits
                                                                : buffers.saved[static_cast<std::size_t>(m.slot)];
  return View{const_cast<void*>(memory), m.dtype, slice.stride}.columns_from(slice.offset);
}

View LayerCall::gradient(const MatrixSlice& slice) const {
  if (slice.matrix == kPartInput || slice.matrix == kPartOutput)
    return {buffers.residual_gradient, model.compute, slice.stride};
  const MatrixSlice with{matrix_of(slice).gradient_with, slice.offset, slice.stride};
  return in_scratch(with, 2 * static_cast<std::size_t>(with.matrix.number()) + 1);
}

float* LayerCall::maxima(MatrixId matrix) const {
  const auto count = static_cast<std::int64_t>(2 * part.matrices.size());
  return static_cast<float*>(scratch.piece(scratch_pieces(part) - 1, [&] { return count * size_of(DType::fp32); })) +
         2 * matrix.number();
}

void LayerCall::start_maxima() const {
  const auto is_measured = [](const Matrix& m) { return m.is_measured || m.is_gradient_measured; };
  if (std::ranges::none_of(part.matrices, is_measured)) return;
  const std::size_t bytes = 2 * part.matrices.size() * sizeof(float);
  add(FillZero{maxima(MatrixId(0)), static_cast<std::int64_t>(bytes)});
}

PartialSums LayerCall::residual_gradient_sums() const {
  if (model.gradient_sum_rows == 0) return {};
  const View gradient{buffers.residual_gradient, model.compute, model.architecture.width};
  return {static_cast<float*>(gradient.at(0, model.gradient_sums_offset())), model.gradient_sum_rows};
}

float* LayerCall::residual_gradient_largest() const {
  if (!model.measures_gradient) return nullptr;
  const View gradient{buffers.residual_gradient, model.compute, model.architecture.width};
  return static_cast<float*>(gradient.at(0, model.gradient_largest_offset()));
}

float* LayerCall::restart_residual_gradient_largest() const {
  float* const largest = residual_gradient_largest();
  if (largest != nullptr) add(FillZero{largest, sizeof *largest});
  return largest;
}

ConstView LayerCall::parameter(std::int32_t place, std::int64_t columns) const {
  if (place < 0) return {};
  const auto at = static_cast<std::size_t>(place);
  return {buffers.parameters[at], parameter_type(at), columns};
}

GradientView LayerCall::parameter_gradient(std::int32_t place, std::int64_t columns) const {
  if (place < 0) return {};
  const auto at = static_cast<std::size_t>(place);
  return {{buffers.gradients[at], buffers.gradient_dtype, columns},
          !buffers.gradient_adds.empty() && buffers.gradient_adds[at]};
}

Dropout LayerCall::dropout() const {
  if (buffers.evaluation || !layer.dropout) return {};
  return {.probability = static_cast<float>(model.architecture.dropout),
          .sequence = model.sequence,
          .layer = std::max(part.block, 0),
          .site = *layer.dropout,
          .scalars = buffers.scalars,
          .first_row = buffers.first_row};
}

Dropout LayerCall::adapter_dropout() const {
  if (buffers.evaluation || layer.adapter < 0) return {};
  return {.probability = static_cast<float>(model.architecture.adapters.dropout),
          .sequence = model.sequence,
          .layer = layer.adapter,
          .site = part.kind == PartKind::mlp ? DropoutSite::mlp_residual : DropoutSite::attention_residual,
          .scalars = buffers.scalars,
          .first_row = buffers.first_row};
}

namespace {

void take_forward(const PartCall& call, PartScratch& scratch) {
  scratch.begin_turn();
  LayerCall{call, scratch, call.part.layers.front()}.start_maxima();
  for (const Layer& layer : call.part.layers) {
    scratch.begin_turn();
    const LayerCall turn{call, scratch, layer};
    if (turn.makes_output() || turn.saved_input()) directions_of(layer).forward(turn);
  }
}

void take_backward(const PartCall& call, PartScratch& scratch) {
  scratch.begin_turn();
  LayerCall{call, scratch, call.part.layers.front()}.start_maxima();
  for (const BackwardTurn& turn : call.part.backward_turns) {
    scratch.begin_turn();
    const Layer& layer = call.part.layers[turn.layer];
    directions_of(layer).backward({call, scratch, layer}, turn.half);
  }
}

/// Takes a part's rows: all of them, or chunk by chunk.
template <class Take>
void take_rows(const PartCall& call, const PartScratch& scratch, const Take& take) {
  const std::int64_t tokens = call.model.tokens(), chunk = call.part.chunk > 0 ? call.part.chunk : tokens;
  const auto adds = std::make_unique<bool[]>(call.part.tensors.size());
  std::fill_n(adds.get(), call.part.tensors.size(), true);
  for (std::int64_t first = 0; first < tokens; first += chunk) {
    const auto from_first = [&](const void* memory) {
      const View rows{const_cast<void*>(memory), call.model.compute, call.model.architecture.width};
      return memory == nullptr ? nullptr : rows.at(first);
    };
    PartBuffers b = call.buffers;
    b.first_row = first;
    b.input = from_first(b.input), b.output = from_first(b.output);
    b.residual_gradient = from_first(b.residual_gradient);
    if (first > 0) b.gradient_adds = {adds.get(), call.part.tensors.size()};
    PartScratch of_chunk = scratch;
    if (tokens - first >= chunk) {
      take(PartCall{call.model, call.part, b, call.kernels}, of_chunk);
    } else {
      Part rest = call.part;
      for (Layer& layer : rest.layers) layer.rows = tokens - first;
      take(PartCall{call.model, rest, b, call.kernels}, of_chunk);
    }
  }
}

}  // namespace

void add_forward(const PartCall& call, const PartScratch& scratch) { take_rows(call, scratch, take_forward); }

void add_backward(const PartCall& call, const PartScratch& scratch) {
  take_rows(call, scratch, [](const PartCall& rows, PartScratch& of_rows) {
    PartBuffers b = rows.buffers;
    b.output = nullptr;
    if (rows.part.chunk > 0) take_forward({rows.model, rows.part, b, rows.kernels}, of_rows);
    take_backward(rows, of_rows);
  });
}

}  // namespace tessera
