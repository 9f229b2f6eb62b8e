#include "tessera/optimizer/matrices.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// Returns the cost of an update, as far as it differs between matrices.
double cost_of(const ParameterTensor& tensor, const Architecture& architecture) {
  double cost = 0;
  for (const TensorMatrix& m : matrices_of(tensor, architecture)) {
    cost +=
        static_cast<double>(m.rows) * static_cast<double>(m.columns) * static_cast<double>(std::min(m.rows, m.columns));
  }
  return cost;
}

}  // namespace

std::vector<TensorMatrix> matrices_of(const ParameterTensor& tensor, const Architecture& a) {
  TESSERA_ASSERT(tensor.is_block_matrix(), "{} is not a matrix of a block", tensor.name);
  const bool in_out = rules_of(a.family).weight_layout == WeightLayout::in_out;
  const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  const std::int64_t inputs = in_out ? rows : columns;
  std::vector<std::int64_t> outputs{in_out ? columns : rows};
  if (!tensor.stacked.empty()) outputs = tensor.stacked;
  std::vector<TensorMatrix> matrices;
  std::int64_t first = 0;  // output
  for (const std::int64_t out : outputs) {
    TensorMatrix m;
    m.rows = in_out ? rows : out, m.columns = in_out ? out : columns;
    m.offset = in_out ? first : first * columns, m.stride = columns;
    m.inputs = inputs, m.outputs = out;
    matrices.push_back(m);
    first += out;
  }
  return matrices;
}

float muon_scale(const TensorMatrix& m, MuonScale scale) {
  const auto rows = static_cast<double>(m.rows), columns = static_cast<double>(m.columns);
  if (scale == MuonScale::match_rms_adamw) return static_cast<float>(0.2 * std::sqrt(std::max(rows, columns)));
  const double ratio = static_cast<double>(m.outputs) / static_cast<double>(m.inputs);
  return static_cast<float>(std::sqrt(std::max(1.0, ratio)));
}

IndexedVector<UnitId, UnitOwners> owners_of(const ModelParts& model, const UnitLayout& layout, std::int64_t members) {
  std::vector<TensorId> tensors;
  for (const TensorId id : model.tensors.ids()) {
    if (model.tensors[id].is_block_matrix()) tensors.push_back(id);
  }
  const auto cost = [&](TensorId id) { return cost_of(model.tensors[id], model.architecture); };
  std::ranges::stable_sort(tensors, std::greater(), cost);
  IndexedVector<TensorId, std::int64_t> owner(model.tensors.size(), 0);
  std::vector<double> load(static_cast<std::size_t>(members));
  for (const TensorId id : tensors) {
    const auto least = std::ranges::min_element(load);
    *least += cost(id);
    owner[id] = least - load.begin();
  }
  IndexedVector<UnitId, UnitOwners> owners;
  for (const Unit& unit : layout.units) {
    UnitOwners& of = owners.emplace_back();
    std::vector<std::int64_t> ends(static_cast<std::size_t>(members));
    for (const TensorPlace& place : unit.tensors) {
      const ParameterTensor& tensor = model.tensors[place.tensor];
      if (!tensor.is_block_matrix()) continue;
      std::int64_t& end = ends[static_cast<std::size_t>(owner[place.tensor])];
      of.tensors.push_back({place.tensor, owner[place.tensor], end});
      end = checked_add(end, round_up(tensor.elements, kTensorAlignment));
    }
    of.elements = *std::ranges::max_element(ends);
  }
  return owners;
}

}  // namespace tessera
