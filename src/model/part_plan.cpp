// What follows from a part's list of layers.

#include <algorithm>
#include <numeric>
#include <utility>

#include "model/blocks.hpp"
#include "model/layer_call.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/kernel_call.hpp"
#include "tessera/kernels/needs.hpp"
#include "tessera/kernels/scratch_layout.hpp"

namespace tessera {

namespace {

using Again = Matrix::Again;
using Place = Matrix::Place;
using Half = BackwardTurn::Half;

/// Counts the linears that multiply a matrix with a weight that trains, all of them or those in fp8.
std::int64_t trained_readers(const ModelParts& model, const Part& part, MatrixId id, bool in_fp8) {
  return std::ranges::count_if(part.layers, [&](const Layer& layer) {
    return layer.kind == LayerKind::linear && layer.inputs[0].matrix == id && (layer.is_fp8 || !in_fp8) &&
           model.tensors[part.tensors[static_cast<std::size_t>(layer.weight)]].trains;
  });
}

/// Decides what backward makes again: what the gradients of weights that train are made of.
void find_gradient_inputs(const ModelParts& model, Part& part) {
  for (const MatrixId id : part.matrices.ids()) {
    Matrix& m = part.matrices[id];
    if (m.again == Again::never) continue;
    m.feeds_gradient = trained_readers(model, part, id, false) > 0;
    if (!m.feeds_gradient) m.place = Place::scratch;
  }
}

/// Decides whose largest magnitudes are found by those who make them, where linears in fp8 read the whole matrix: what
/// norms, gates and GELU make, and the gradients that norms and gates make. A library's GELU, which makes what is kept,
/// finds none. The residual gradient is read as it is where no dropout comes between.
void find_measured(ModelParts& model, Part& part) {
  const auto linear_has = [&](const MatrixSlice& slice, auto Layer::*side) {
    const bool is_whole = slice.offset == 0 && slice.stride == part.matrices[slice.matrix].columns;
    return is_whole && std::ranges::any_of(
                           part.layers, [&](const Layer& layer) { return layer.is_fp8 && (layer.*side)[0] == slice; });
  };
  for (const Layer& layer : part.layers) {
    if (layer.outputs.empty()) continue;  // the head
    model.measures_gradient |=
        layer.is_fp8 && layer.outputs[0].matrix == kPartOutput && model.architecture.dropout == 0 && !model.generates();
    const bool is_maker = layer.kind == LayerKind::norm || layer.kind == LayerKind::glu;
    const bool has_gelu = layer.kind == LayerKind::linear && layer.outputs.size() > 1;
    const MatrixSlice& made = layer.outputs[has_gelu ? 1 : 0];
    if (is_maker || (has_gelu && !model.keeps_activated))
      part.matrices[made.matrix].is_measured = linear_has(made, &Layer::inputs);
    for (const MatrixSlice& input : layer.inputs)
      part.matrices[input.matrix].is_gradient_measured |= is_maker && linear_has(input, &Layer::outputs);
  }
}

/// Decides what is saved, and what is needed for the output alone. Saved is what backward reads and nothing makes
/// again. Of what could be made again backward reads it for the gradients of weights alone; if all of these are in fp8,
/// the copy that they multiply is saved instead.
void place_matrices(const ModelParts& model, Part& part) {
  const auto save = [&](const MatrixSlice& slice) {
    Matrix& m = part.matrices[slice.matrix];
    if (m.place == Place::scratch && m.again == Again::never) m.place = Place::saved;
  };
  for (const Layer& layer : part.layers) {
    if (part.kind == PartKind::head) break;  // it has no backward of its own
    const bool has_gelu = layer.outputs.size() > 1;
    std::ranges::for_each(layer.inputs, save);
    if (layer.kind != LayerKind::linear || has_gelu) std::ranges::for_each(layer.outputs, save);
  }
  for (const MatrixId id : part.matrices.ids()) {
    Matrix& m = part.matrices[id];
    m.is_for_output = m.place == Place::scratch || m.place == Place::output;
    if (m.place != Place::saved) continue;
    m.slot = static_cast<std::int32_t>(part.saved.size());
    const std::int64_t numbers = checked_multiply(m.rows, m.columns);
    part.saved.push_back({m.name, m.dtype, numbers, numbers});
    const std::int64_t in_fp8 = trained_readers(model, part, id, true);
    if (m.again == Again::never || in_fp8 == 0 || in_fp8 < trained_readers(model, part, id, false)) continue;
    m.place = Place::scratch;
    ScratchLayout memory;
    const SavedFp8 copy(memory, model, m);
    part.saved.back() = {m.name, DType::e4m3, memory.used(), copy.numbers};
  }
  for (auto layer = part.layers.rbegin(); layer != part.layers.rend(); ++layer) {
    const auto is_for_output = [&](const MatrixSlice& s) { return part.matrices[s.matrix].is_for_output; };
    if (std::ranges::all_of(layer->outputs, is_for_output)) continue;
    for (const MatrixSlice& s : layer->inputs) part.matrices[s.matrix].is_for_output = false;
  }
}

/// Of a part that takes its rows in chunks nothing is saved: what would be is scratch from a chunk's forward to its
/// backward.
void save_nothing(Part& part) {
  for (const MatrixId id : part.matrices.ids()) {
    Matrix& m = part.matrices[id];
    if (m.place == Place::saved) m.place = Place::scratch;
    m.slot = -1;
  }
  part.saved.clear();
  part.read_in_backward.assign(part.tensors.size(), true);
}

/// Decides which gates make fp8 themselves in backward: those of which nothing is read but by linears in fp8 whose
/// weights train.
void find_made_in_fp8(const ModelParts& model, Part& part) {
  const auto trains = [&](std::int32_t place) {
    return place >= 0 && model.tensors[part.tensors[static_cast<std::size_t>(place)]].trains;
  };
  const auto is_gradient_read_in_fp8 = [&](const MatrixSlice& slice) {
    return part.matrices[slice.matrix].is_gradient_measured &&
           std::ranges::all_of(part.layers, [&](const Layer& layer) {
             return layer.outputs.empty() || layer.outputs[0].matrix != slice.matrix ||
                    (layer.is_fp8 && trains(layer.weight) && !trains(layer.bias));
           });
  };
  for (const Layer& layer : part.layers) {
    if (layer.kind != LayerKind::glu || !kernel_needs(model.device).packs_fp8()) continue;
    const MatrixId id = layer.outputs[0].matrix;
    Matrix& output = part.matrices[id];
    const bool comes_again = output.feeds_gradient && output.slot < 0;
    if (!std::ranges::all_of(layer.inputs, is_gradient_read_in_fp8)) continue;
    if (comes_again && trained_readers(model, part, id, true) < trained_readers(model, part, id, false)) continue;
    for (const MatrixSlice& input : layer.inputs) part.matrices[input.matrix].is_gradient_in_fp8 = true;
    output.is_again_in_fp8 = comes_again;
    output.gradient_with = id;  // it is not replaced
  }
}

/// Orders backward: the layers from the last to the first. Linears that read one matrix add to its gradient in the
/// order of forward. Where the layer that made the matrix makes it again, their weights' gradients come after that.
std::vector<BackwardTurn> backward_turns(const Part& part) {
  const auto reads = [&](std::size_t i, MatrixId matrix) {
    return part.layers[i].kind == LayerKind::linear && part.layers[i].inputs[0].matrix == matrix;
  };
  const auto comes_again = [&](MatrixId matrix) {
    return part.matrices[matrix].again == Again::by_backward && part.matrices[matrix].feeds_gradient;
  };
  std::vector<BackwardTurn> turns;
  for (std::size_t end = part.layers.size(); end > 0;) {
    std::size_t first = end - 1;
    const Layer& layer = part.layers[first];
    if (layer.kind == LayerKind::linear) {
      const MatrixId from = layer.inputs[0].matrix;
      while (first > 0 && reads(first - 1, from)) --first;
      const bool is_split = comes_again(from);
      for (std::size_t i = first; i < end; ++i) turns.push_back({i, is_split ? Half::input : Half::both});
    } else {
      turns.push_back({first, Half::both});
      const MatrixId made = layer.outputs.empty() ? kPartOutput : layer.outputs[0].matrix;
      for (std::size_t i = end; i < part.layers.size(); ++i) {
        if (reads(i, made) && comes_again(made)) turns.push_back({i, Half::weights});
      }
    }
    end = first;
  }
  return turns;
}

/// Finds places for pieces: those that are in use at the same time do not overlap. Large ones first, each as low as it
/// can be.
void place(const std::vector<ScratchPiece>& pieces, PartCost& cost) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return pieces[i].bytes; });
  cost.places.assign(pieces.size(), 0);
  const auto end_of = [&](std::size_t i) {
    return cost.places[i] + round_up(pieces[i].bytes, ScratchLayout::kAlignment);
  };
  for (auto next = order.begin(); next != order.end() && pieces[*next].bytes > 0; ++next) {
    const ScratchPiece& piece = pieces[*next];
    std::int64_t& at = cost.places[*next];
    for (bool has_moved = true; std::exchange(has_moved, false);) {
      for (const std::size_t i : std::span(order.begin(), next)) {
        const ScratchPiece& other = pieces[i];
        const bool meet = other.first_turn <= piece.last_turn && piece.first_turn <= other.last_turn;
        if (meet && at < end_of(i) && cost.places[i] < at + piece.bytes) at = end_of(i), has_moved = true;
      }
    }
    cost.scratch_bytes = std::max(cost.scratch_bytes, end_of(*next));
  }
}

/// Looks at a part without memory in every direction, to see what its layers call and touch.
void dry_run(const ModelParts& model, Part& part) {
  const std::vector<void*> memory(part.tensors.size() + part.saved.size() + part.constants.size(), nowhere());
  const std::vector<const void*> read_memory(memory.begin(), memory.end());
  std::vector<void*> gradients;
  for (const TensorId id : part.tensors) gradients.push_back(model.tensors[id].trains ? nowhere() : nullptr);
  PartBuffers b;
  b.input = b.residual_gradient = nowhere();
  b.logits = static_cast<float*>(nowhere());
  b.saved = memory, b.gradients = gradients, b.parameters = read_memory, b.constants = read_memory;
  b.gradient_dtype = model.gradient;
  const auto run = [&](auto& direction) {
    std::vector<KernelArguments> kernels;
    std::vector<ScratchPiece> pieces(scratch_pieces(part));
    direction({model, part, b, kernels}, PartScratch(pieces));
    double flops = 0;
    for (const KernelArguments& kernel : kernels) {
      if (const auto call = describe(kernel)) flops += call->cost.flops;
    }
    if (flops >= 0x1p63) throw refusal("{} has {:.3g} FLOPs", part.name, flops).use("smaller sizes");
    PartCost cost;
    cost.flops = static_cast<std::int64_t>(flops);
    place(pieces, cost);
    return cost;
  };
  part.recompute.flops = run(add_forward).flops;
  b.output = nowhere();
  part.forward = run(add_forward);
  part.recompute.scratch_bytes = part.forward.scratch_bytes;  // it may make the output as well
  if (!model.generates()) part.backward = run(add_backward);
}

}  // namespace

void plan_parts(ModelParts& model) {
  const auto trains = [&](TensorId id) { return model.tensors[id].trains; };
  const auto first = model.parts.begin() + model.first_trained().number();
  std::for_each(first, model.parts.end(), [&](Part& part) { find_gradient_inputs(model, part); });
  for (Part& part : model.parts) find_measured(model, part);
  for (Part& part : model.parts) {
    place_matrices(model, part);
    if (part.chunk > 0) save_nothing(part);
    find_made_in_fp8(model, part);
    part.backward_turns = backward_turns(part);
    // Parts of equal layers cost the same.
    const auto alike = std::ranges::find_if(model.parts, [&](const Part& other) {
      return &other == &part || (other.layers == part.layers && other.matrices == part.matrices &&
                                 std::ranges::equal(other.tensors, part.tensors, {}, trains, trains));
    });
    if (&*alike == &part) dry_run(model, part);
    part.forward = alike->forward, part.backward = alike->backward, part.recompute = alike->recompute;
  }
  std::for_each(model.parts.begin(), first, [](Part& part) { part.backward = {}; });
}

}  // namespace tessera
