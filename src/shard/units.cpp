#include "tessera/shard/units.hpp"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// A run of tensors that no wrap cuts: those that one part brings in, with tables apart.
struct Piece {
  std::string name;
  std::vector<TensorId> tensors;
  int block = -1;
  bool stands_alone = false;
  bool trains = true;
  bool is_fp8 = false, is_rest = false;  ///< weights in fp8; what blocks have next to these
};

std::string short_name(const std::string& tensor) {
  const std::string_view name = without_prefix(tensor);
  return std::string(name.substr(0, name.rfind('.')));
}

using Tensors = IndexedVector<TensorId, bool>;

/// Returns which tensors are weights of linears in fp8.
Tensors fp8_tensors(const ModelParts& model) {
  Tensors in_fp8(model.tensors.size(), false);
  for (const Part& part : model.parts) {
    for (const Layer& layer : part.layers) {
      if (layer.is_fp8) in_fp8[part.tensors[static_cast<std::size_t>(layer.weight)]] = true;
    }
  }
  for (const TensorId id : model.tensors.ids()) {
    if (const TensorId first = model.tensors[id].follows; first && in_fp8[first]) in_fp8[id] = true;
  }
  return in_fp8;
}

std::vector<Piece> pieces_of(const ModelParts& model, const Tensors& in_fp8) {
  Tensors seen(model.tensors.size(), false);
  std::vector<Piece> pieces;
  for (const Part& part : model.parts) {
    std::array<Piece, 4> of_part;  // the second two train
    for (const int i : {0, 1, 2, 3}) of_part[i] = {part.name, {}, part.block, false, i >= 2, i % 2 == 1};
    for (const TensorId id : part.tensors) {
      if (seen[id]) continue;
      seen[id] = true;
      const ParameterTensor& tensor = model.tensors[id];
      if (tensor.is_table || part.kind == PartKind::embedding) {
        pieces.push_back({short_name(tensor.name), {id}, -1, true, tensor.trains, false});
      } else {
        std::vector<TensorId>& to = of_part[(tensor.trains ? 2 : 0) + (in_fp8[id] ? 1 : 0)].tensors;
        const auto before = std::ranges::find(to, tensor.follows);
        to.insert(before == to.end() ? before : before + 1, id);
      }
    }
    for (Piece& piece : of_part) {
      if (piece.tensors.empty()) continue;
      if (part.kind == PartKind::head) piece.name = short_name(model.tensors[piece.tensors.front()].name);
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

std::int64_t elements_of(const ModelParts& model, const std::vector<TensorId>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [&](std::int64_t sum, TensorId id) { return sum + model.tensors[id].elements; });
}

void append(Piece& to, const Piece& from) {
  to.tensors.insert(to.tensors.end(), from.tensors.begin(), from.tensors.end());
  to.block = std::max(to.block, from.block);
}

std::vector<Piece> merge_by_block(const std::vector<Piece>& pieces) {
  std::vector<Piece> merged;
  for (const Piece& piece : pieces) {
    if (piece.block >= 0 && !merged.empty() && merged.back().block == piece.block) {
      append(merged.back(), piece);
    } else {
      merged.push_back(piece);
      if (piece.block >= 0) merged.back().name = fmt::format("h.{}", piece.block);
    }
  }
  return merged;
}

std::vector<Piece> merge_by_size(const ModelParts& model, const std::vector<Piece>& pieces, std::int64_t min_params) {
  std::vector<Piece> merged;
  std::vector<Piece> alone;
  std::string last_name;
  bool open = false;  // the last merged piece may still grow
  auto close = [&](Piece& piece) {
    if (piece.name != last_name) piece.name += ".." + last_name;
  };
  std::size_t last_grown = 0;
  for (const Piece& piece : pieces) {
    if (piece.stands_alone) {
      merged.push_back(piece);
      continue;
    }
    if (open) {
      append(merged[last_grown], piece);
    } else {
      merged.push_back(piece);
      last_grown = merged.size() - 1;
      open = true;
    }
    last_name = piece.name;
    if (elements_of(model, merged[last_grown].tensors) >= min_params) {
      close(merged[last_grown]);
      open = false;
    }
  }
  if (open) {  // a remainder below the minimum joins the merged unit before it, if there is one
    close(merged[last_grown]);
    for (std::size_t i = last_grown; i-- > 0;) {
      if (merged[i].stands_alone) continue;
      append(merged[i], merged[last_grown]);
      if (const auto dots = merged[i].name.find(".."); dots != std::string::npos) merged[i].name.erase(dots);
      merged[i].name += ".." + last_name;
      merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(last_grown));
      break;
    }
  }
  return merged;
}

std::vector<Piece> merge_all(const std::vector<Piece>& pieces) {
  Piece whole{"model", {}, 0, false};
  for (const Piece& piece : pieces) append(whole, piece);
  if (whole.tensors.empty()) return {};
  return {whole};
}

std::vector<Piece> merge(const ModelParts& model, const std::vector<Piece>& pieces, Wrap wrap,
                         std::int64_t min_params) {
  if (wrap == Wrap::block) return merge_by_block(pieces);
  return wrap == Wrap::size ? merge_by_size(model, pieces, min_params) : merge_all(pieces);
}

/// Returns whether blocks have nothing but gains and biases there.
bool are_vectors(const ModelParts& model, const std::vector<Piece>& pieces) {
  return std::ranges::all_of(pieces, [&](const Piece& piece) {
    return piece.block < 0 ||
           std::ranges::all_of(piece.tensors, [&](TensorId id) { return model.tensors[id].shape.size() == 1; });
  });
}

/// Returns the pieces merged into units, what trains apart from what does not, and weights in fp8 apart from the rest,
/// in the order of their first tensors. Where the rest of all blocks is gains and biases, it is one unit, because it
/// takes few bytes and would make as many messages as the weights.
std::vector<Piece> merged(const ModelParts& model, Wrap wrap, std::int64_t min_params) {
  const Tensors in_fp8 = fp8_tensors(model);
  const std::vector<Piece> pieces = pieces_of(model, in_fp8);
  IndexedVector<TensorId, std::int64_t> order(model.tensors.size(), 0);
  std::int64_t next = 0;
  for (const Piece& piece : pieces) {
    for (const TensorId id : piece.tensors) order[id] = next++;
  }
  const bool any_fp8 = std::ranges::find(in_fp8, true) != in_fp8.end();
  std::vector<Piece> units;
  for (const int i : {0, 1, 2, 3}) {
    std::vector<Piece> alike;
    std::ranges::copy_if(pieces, std::back_inserter(alike),
                         [&](const Piece& piece) { return piece.trains == (i >= 2) && piece.is_fp8 == (i % 2 == 1); });
    const bool joins_blocks = any_fp8 && i % 2 == 0 && wrap == Wrap::block && are_vectors(model, alike);
    for (Piece& piece : alike) {
      if (joins_blocks && piece.block > 0) piece.block = 0;
    }
    alike = merge(model, alike, wrap, min_params);
    for (Piece& unit : alike) {
      if (joins_blocks && unit.block == 0) unit.name = "h";
      unit.trains = i >= 2, unit.is_fp8 = i % 2 == 1;
      unit.is_rest = any_fp8 && unit.block >= 0 && !unit.is_fp8;
    }
    std::ranges::move(alike, std::back_inserter(units));
  }
  std::ranges::sort(units, {}, [&](const Piece& unit) { return order[unit.tensors.front()]; });
  return units;
}

void note_fp8_weights(const ModelParts& model, UnitLayout& layout) {
  for (const Part& part : model.parts) {
    for (const Layer& layer : part.layers) {
      if (!layer.is_fp8) continue;
      const TensorId tensor = part.tensors[static_cast<std::size_t>(layer.weight)];
      std::vector<Fp8Weight>& weights = layout.units[layout.unit_of[tensor]].fp8_weights;
      weights.push_back({.tensor = tensor, .offset = layout.offset_of[tensor]});
    }
  }
  for (Unit& unit : layout.units) {
    std::ranges::sort(unit.fp8_weights, {}, &Fp8Weight::offset);
    std::int64_t end = unit.padded;
    for (Fp8Weight& weight : unit.fp8_weights | std::views::reverse)
      weight.elements = std::exchange(end, weight.offset) - weight.offset;
  }
}

}  // namespace

std::vector<UnitId> UnitLayout::units_of(const std::vector<TensorId>& tensors) const {
  std::vector<UnitId> found;
  for (const TensorId tensor : tensors) {
    const UnitId unit = unit_of[tensor];
    if (std::ranges::find(found, unit) == found.end()) found.push_back(unit);
  }
  return found;
}

std::int64_t UnitLayout::padded_elements() const {
  return std::accumulate(units.begin(), units.end(), std::int64_t{0},
                         [](std::int64_t sum, const Unit& unit) { return sum + unit.padded; });
}

std::int64_t UnitLayout::trained_elements() const {
  return std::accumulate(units.begin(), units.end(), std::int64_t{0},
                         [](std::int64_t sum, const Unit& unit) { return sum + (unit.trains ? unit.padded : 0); });
}

UnitLayout divide_into_units(const ModelParts& model, Wrap wrap, std::int64_t min_params, std::int64_t world,
                             bool matrices_first) {
  TESSERA_ASSERT(world > 0, "a world has at least one rank");
  UnitLayout layout;
  layout.world = world;
  layout.unit_of.assign(model.tensors.size(), {});
  layout.offset_of.assign(model.tensors.size(), -1);
  const auto is_matrix = [&](TensorId id) { return matrices_first && model.tensors[id].is_block_matrix(); };
  for (Piece& piece : merged(model, wrap, min_params)) {
    std::ranges::stable_partition(piece.tensors, is_matrix);
    const ParameterTensor& first = model.tensors[piece.tensors.front()];
    Unit unit;
    unit.name = piece.name + (first.is_adapter ? ".lora" : piece.is_rest ? ".rest" : "");
    unit.is_block = piece.block >= 0 && !first.is_adapter && !piece.is_rest;
    unit.trains = first.trains;
    std::int64_t end = 0;
    for (const TensorId id : piece.tensors) {
      TESSERA_ASSERT(model.tensors[id].trains == unit.trains, "unit {} trains in part", unit.name);
      if (!model.tensors[id].follows) end = round_up(end, kTensorAlignment);
      unit.tensors.push_back({id, end});
      layout.unit_of[id] = layout.units.end_id();
      layout.offset_of[id] = end;
      unit.elements = checked_add(unit.elements, model.tensors[id].elements);
      end = checked_add(end, model.tensors[id].padded_elements());
      if (is_matrix(id)) unit.matrices_end = round_up(end, kTensorAlignment);
    }
    unit.padded = round_up(end, checked_multiply(world, kTensorAlignment));
    layout.units.push_back(std::move(unit));
  }
  note_fp8_weights(model, layout);
  return layout;
}

std::vector<TensorRun> runs_in_slice(const ModelParts& model, const Unit& unit, std::int64_t first,
                                     std::int64_t count) {
  std::vector<TensorRun> runs;
  for (const TensorPlace& place : unit.tensors) {
    const std::int64_t begin = std::max(place.offset, first);
    const std::int64_t end = std::min(place.offset + model.tensors[place.tensor].elements, first + count);
    if (begin < end) runs.push_back({place.tensor, begin - place.offset, end - begin, begin - first});
  }
  return runs;
}

}  // namespace tessera
