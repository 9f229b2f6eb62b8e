#include <algorithm>

#include "model/layer_call.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/kernels/scratch_layout.hpp"

namespace tessera {

namespace {

/// Shape and weight of forward or backward.
template <class Arguments>
Arguments linear_of(const LayerCall& call) {
  const Layer& layer = call.layer;
  Arguments l;
  l.tokens = layer.rows, l.in = layer.in, l.out = layer.out;
  l.layout = layer.layout, l.scale = static_cast<float>(layer.scale);
  l.weight = call.parameter(layer.weight, layer.layout == WeightLayout::in_out ? layer.out : layer.in);
  return l;
}

/// Returns the gradient of what joins the residual stream: d output, through the dropout's mask if there is one, which
/// the first turn applies.
ConstView branch_gradient(const LayerCall& call, BackwardTurn::Half half) {
  const View gradient = call.gradient(call.layer.outputs[0]);
  const Dropout dropout = call.dropout();
  if (!dropout.on()) return gradient;
  const View masked{call.masked_gradient(), gradient.dtype, gradient.stride};
  if (half != BackwardTurn::Half::weights)
    call.add(ApplyDropout{
        .rows = call.layer.rows, .columns = call.layer.out, .input = gradient, .output = masked, .dropout = dropout});
  return masked;
}

/// Returns what the linear multiplies: its input, or that with an adapter's dropout.
ConstView dropped_input(const LayerCall& call, const Dropout& dropout) {
  const View input = call.view(call.layer.inputs[0]);
  if (!dropout.on()) return input;
  const Layer& layer = call.layer;
  const View dropped{call.kernel_scratch([&] { return layer.rows * layer.in * size_of(call.model.compute); }),
                     call.model.compute, layer.in};
  call.add(
      ApplyDropout{.rows = layer.rows, .columns = layer.in, .input = input, .output = dropped, .dropout = dropout});
  return dropped;
}

/// An operand of a linear's matmuls, which they read as it lies, transposed, or both. Without `from` and `saved` there
/// is none.
struct Operand {
  ConstView from;
  std::int64_t rows = 0, columns = 0;
  Fp8Operand* to = nullptr;
  bool lies = false, turned = false;
  bool is_there = false;  ///< an earlier turn has left it, or forward in `saved`
  Fp8 type = Fp8::e4m3;
  std::optional<SavedFp8> saved = {};
  const float* largest = nullptr;  ///< where that is known
};

Operand weight_operand(const LayerCall& call, const ConstView& weight, Fp8Operand& to, WeightLayout wanted) {
  const Layer& layer = call.layer;
  const bool in_out = layer.layout == WeightLayout::in_out;
  Operand o{weight, in_out ? layer.in : layer.out, in_out ? layer.out : layer.in, &to};
  o.lies = layer.layout == wanted, o.turned = !o.lies, o.largest = call.weight_magnitude();
  return o;
}

/// Returns whether a linear before this one has converted the input in the same direction, forward or for the gradients
/// of weights. They take turns in the order of forward.
bool is_converted(const LayerCall& call, bool forward) {
  return std::any_of(call.part.layers.data(), &call.layer, [&](const Layer& other) {
    return other.is_fp8 && other.inputs == call.layer.inputs &&
           (forward || call.parameter_gradient(other.weight, other.in));
  });
}

/// Rounds the operands to fp8. The copies and their factors lie in that piece of scratch, but for what is saved. Of
/// that a GPU reads the copy itself; cores save codes and multiply numbers.
void take_to_fp8(const LayerCall& call, std::size_t piece, std::initializer_list<Operand> operands) {
  const bool packs = kernel_needs(call.model.device).packs_fp8();
  const auto for_each = [&](ScratchLayout scratch, const auto& f) {
    for (const Operand& o : operands) {
      if (!o.from && !o.saved) continue;
      const auto copy = [&](std::int64_t rows, std::int64_t columns) -> View {
        if (packs) rows = round_up(rows, kFp8Pad), columns = round_up(columns, kFp8Pad);
        const DType dtype = packs ? dtype_of(o.type) : call.model.compute;
        return {scratch.take_matrix(rows, columns, dtype), dtype, columns};
      };
      ToFp8 a{o.rows, o.columns, o.type, o.from, {}, {}};
      a.largest = o.largest;
      // Codes without gaps are read where they lie.
      const bool in_place = packs && o.from.dtype == dtype_of(o.type) && (o.rows | o.columns) % kFp8Pad == 0;
      if ((o.lies && !in_place) || !packs) a.output = copy(o.rows, o.columns);
      if (o.turned && packs) a.turned = o.saved ? o.saved->codes : copy(o.columns, o.rows);
      a.factor = o.saved ? o.saved->factor : scratch.take<float>(2);
      f(o, a);
    }
    return scratch.used();
  };
  const std::int64_t bytes = for_each({}, [](const Operand&, const ToFp8&) {});
  void* const memory = bytes > 0 ? call.scratch.piece(piece, [&] { return bytes; }) : nullptr;
  for_each({memory, bytes}, [&](const Operand& o, const ToFp8& a) {
    if (!o.is_there) call.add(a);
    if (o.saved && !packs) {
      View from = a.output, to = o.saved->codes;
      if (o.is_there) std::swap(from, to);
      call.add(Cast{from, to, o.rows * o.columns});
    }
    *o.to = {a.output || !o.lies ? ConstView(a.output) : o.from, a.turned, a.factor};
  });
}

}  // namespace

void linear_forward(const LayerCall& call) {
  const Layer& layer = call.layer;
  const bool multiplies = call.makes_output();  // if not, it is here for what it saves
  auto l = linear_of<LinearForward>(call);
  l.input = dropped_input(call, call.adapter_dropout());
  if (layer.is_fp8) {
    const auto saved = call.saved_input();
    take_to_fp8(call, call.input_piece(),
                {{l.input, layer.rows, layer.in, &l.input8, multiplies, saved.has_value(), is_converted(call, true),
                  Fp8::e4m3, saved, call.largest(layer.inputs[0])}});
    take_to_fp8(call, call.kernel_piece(),
                {weight_operand(call, multiplies ? l.weight : ConstView(), l.weight8, WeightLayout::out_in)});
  }
  if (!multiplies) return;
  l.bias = call.parameter(layer.bias, layer.out);
  l.output = call.view(layer.outputs[0]);
  if (layer.outputs.size() > 1 && call.is_wanted(layer.outputs[1])) {
    l.activated = call.view(layer.outputs[1]), l.largest = call.largest(layer.outputs[1]);
    l.is_kept = call.model.keeps_activated;
  }
  if (layer.outputs[0].matrix == kPartOutput) l.residual = call.view({kPartInput, 0, layer.out});
  if (layer.adds_output) l.residual = l.output;
  l.dropout = call.dropout();
  call.add(l);
}

void linear_backward(const LayerCall& call, BackwardTurn::Half half) {
  using Half = BackwardTurn::Half;
  const Layer& layer = call.layer;
  const MatrixSlice& input = layer.inputs[0];
  const Matrix& from = call.matrix_of(input);
  const bool joins = layer.outputs[0].matrix == kPartOutput;
  std::optional<SavedFp8> saved;
  auto l = linear_of<LinearBackward>(call);
  const Fp8Output made = call.gradient_in_fp8(layer.outputs[0]);
  l.output_gradient = joins  ? branch_gradient(call, half)
                      : made ? ConstView{nullptr, call.model.compute, layer.out}
                             : ConstView(call.gradient(layer.outputs[0]));
  if (joins) l.output_gradient_sums = call.residual_gradient_sums();
  if (half != Half::weights) {
    l.input_gradient = call.gradient(input), l.input_adds = layer.adds_gradient;
    l.input_dropout = call.adapter_dropout();
    if (from.again == Matrix::Again::by_gelu) {
      const View before_gelu = call.view({from.gradient_with, input.offset, input.stride});
      if (layer.ends_gradient) l.before_gelu = before_gelu;
      if (!layer.adds_gradient && from.feeds_gradient && !call.is_saved(input))
        call.add(GeluForward{.rows = layer.rows,
                             .columns = layer.in,
                             .input = before_gelu,
                             .output = call.view(input),
                             .largest = call.largest(input)});
    }
  }
  if (half != Half::input) {
    l.weight_gradient = call.parameter_gradient(layer.weight, l.weight.stride);
    if (l.weight_gradient) saved = call.saved_input();
    if (l.weight_gradient && !saved) saved = call.again_in_fp8(input);
    if (l.weight_gradient && !saved) l.input = dropped_input(call, call.adapter_dropout());
    l.bias_gradient = call.parameter_gradient(layer.bias, layer.out);
  }
  if (layer.is_fp8) {
    const bool trains = static_cast<bool>(call.parameter_gradient(layer.weight, l.weight.stride));
    const bool is_second = half == Half::weights;
    take_to_fp8(call, call.input_piece(),
                {{l.input, layer.rows, layer.in, &l.input8, false, true, saved || is_converted(call, false), Fp8::e4m3,
                  saved, call.is_saved(input) ? nullptr : call.largest(input)}});
    Operand gradient{l.output_gradient, layer.rows, layer.out, &l.gradient8, true, trains, is_second};
    gradient.type = call.model.fp8->gradients;
    gradient.largest = joins ? call.residual_gradient_largest() : call.largest_of_gradient(layer.outputs[0]);
    if (made) l.gradient8 = {made.output, made.turned, made.factor};
    take_to_fp8(call, call.kernel_piece(),
                {gradient, weight_operand(call, is_second ? ConstView() : l.weight, l.weight8, WeightLayout::in_out)});
  }
  call.add(l);
}

}  // namespace tessera
