#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "tessera/base/math.hpp"
#include "tessera/optimizer/matrices.hpp"

using namespace tessera;

namespace {

Architecture small(const char* like) {
  Architecture a = preset(like);
  a.layers = 3, a.heads = 4, a.kv_heads = a.family == preset("nano").family ? 4 : 2;
  a.width = 24, a.ffn_width = 50, a.vocab = 67, a.context = 12;
  return a;
}

ModelParts model_of(const Architecture& a) { return declare_parts(a, 1, 5, DType::fp32); }

double flops(const ParameterTensor& tensor, const Architecture& a) {
  double sum = 0;
  for (const TensorMatrix& m : matrices_of(tensor, a))
    sum += static_cast<double>(m.rows * m.columns * std::min(m.rows, m.columns));
  return sum;
}

}  // namespace

TEST_CASE("queries, keys and values of a fused tensor are three matrices, side by side") {
  const Architecture a = small("nano");
  const ModelParts model = model_of(a);
  for (const ParameterTensor& tensor : model.tensors) {
    if (!tensor.is_block_matrix()) continue;
    const std::vector<TensorMatrix> matrices = matrices_of(tensor, a);
    INFO(tensor.name);
    REQUIRE(matrices.size() == (tensor.name.ends_with("attn.c_attn.weight") ? 3u : 1u));
    std::vector<int> covered(static_cast<std::size_t>(tensor.elements));
    for (const TensorMatrix& m : matrices) {
      CHECK(m.inputs == m.rows);  // Conv1D stores [in, out]
      CHECK(m.outputs == m.columns);
      for (std::int64_t row = 0; row < m.rows; ++row) {
        for (std::int64_t column = 0; column < m.columns; ++column)
          ++covered[static_cast<std::size_t>(m.offset + row * m.stride + column)];
      }
    }
    CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));
  }
}

TEST_CASE("tensors of embeddings and head, norms and biases are no matrices of blocks") {
  for (const char* like : {"nano", "qwen2-0.5b", "llama-8b", "qwen3-0.6b"}) {
    const ModelParts model = model_of(small(like));
    for (const ParameterTensor& tensor : model.tensors) {
      INFO(tensor.name);
      const bool is_named_so =
          tensor.name.find("attn.") != std::string::npos || tensor.name.find("mlp.") != std::string::npos;
      CHECK(tensor.is_block_matrix() == (is_named_so && tensor.shape.size() == 2));
    }
  }
}

TEST_CASE("Muon's rate is scaled by a matrix's sides, whatever their layout") {
  const TensorMatrix in_out{24, 96, 0, 96, 24, 96}, out_in{96, 24, 0, 24, 24, 96}, down{96, 24, 0, 24, 96, 24};
  for (const TensorMatrix& m : {in_out, out_in}) {
    CHECK(muon_scale(m, MuonScale::match_rms_adamw) == Approx(0.2 * std::sqrt(96.0)));
    CHECK(muon_scale(m, MuonScale::original) == Approx(2));
  }
  CHECK(muon_scale(down, MuonScale::original) == 1);
}

TEST_CASE("each matrix has one owner, and owners have about the same to do") {
  for (const char* like : {"nano", "qwen3-0.6b"}) {
    const Architecture a = small(like);
    const ModelParts model = model_of(a);
    for (const Wrap wrap : {Wrap::block, Wrap::size, Wrap::model}) {
      for (const std::int64_t members : {1, 2, 3, 8, 64}) {
        const UnitLayout layout = divide_into_units(model, wrap, 3000, members, true);
        const auto owners = owners_of(model, layout, members);
        std::set<TensorId> seen;
        std::vector<double> load(static_cast<std::size_t>(members));
        double largest = 0;
        for (const UnitId unit : layout.units.ids()) {
          std::vector<std::int64_t> ends(static_cast<std::size_t>(members));
          for (const OwnedTensor& owned : owners[unit].tensors) {
            const ParameterTensor& tensor = model.tensors[owned.tensor];
            REQUIRE(seen.insert(owned.tensor).second);
            REQUIRE(layout.unit_of[owned.tensor] == unit);
            const auto o = static_cast<std::size_t>(owned.owner);
            REQUIRE(owned.offset >= ends[o]);
            REQUIRE(owned.offset % kTensorAlignment == 0);
            ends[o] = owned.offset + tensor.elements;
            REQUIRE(ends[o] <= owners[unit].elements);
            load[o] += flops(tensor, a);
            largest = std::max(largest, flops(tensor, a));
          }
        }
        const auto matrices = std::ranges::count_if(model.tensors, &ParameterTensor::is_block_matrix);
        REQUIRE(std::ssize(seen) == matrices);
        const double mean = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(members);
        CHECK(*std::ranges::max_element(load) <= mean + largest);
      }
    }
  }
}

TEST_CASE("matrices of blocks come first in their units where that is wanted") {
  const ModelParts model = model_of(small("nano"));
  for (const Wrap wrap : {Wrap::block, Wrap::size, Wrap::model}) {
    const UnitLayout layout = divide_into_units(model, wrap, 3000, 4, true);
    for (const Unit& unit : layout.units) {
      for (const TensorPlace& place : unit.tensors) {
        const ParameterTensor& tensor = model.tensors[place.tensor];
        const bool is_before = place.offset + tensor.elements <= unit.matrices_end;
        CHECK(is_before == tensor.is_block_matrix());
        CHECK((is_before || place.offset >= unit.matrices_end));
      }
    }
    for (const Unit& unit : divide_into_units(model, wrap, 3000, 4).units) CHECK(unit.matrices_end == 0);
  }
}
