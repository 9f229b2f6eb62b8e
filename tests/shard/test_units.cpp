#include <catch2/catch.hpp>
#include <set>

#include "tensor_stack.hpp"
#include "tessera/base/math.hpp"
#include "tessera/shard/units.hpp"
#include "toy_model.hpp"

using namespace tessera;
using tessera::testing::stack_of;
using tessera::testing::toy_model;
using tessera::testing::ToyShape;

namespace {

void check_layout(const ModelParts& model, const UnitLayout& layout) {
  std::set<TensorId> seen;
  for (const UnitId u : layout.units.ids()) {
    const Unit& unit = layout.units[u];
    REQUIRE(unit.padded % (layout.world * kTensorAlignment) == 0);
    std::int64_t end = 0, elements = 0;
    for (const TensorPlace& place : unit.tensors) {
      REQUIRE(seen.insert(place.tensor).second);
      REQUIRE(place.offset >= end);
      REQUIRE((model.tensors[place.tensor].follows ? place.offset == end : place.offset % kTensorAlignment == 0));
      REQUIRE(layout.unit_of[place.tensor] == UnitId(u));
      REQUIRE(layout.offset_of[place.tensor] == place.offset);
      end = place.offset + model.tensors[place.tensor].padded_elements();
      elements += model.tensors[place.tensor].elements;
    }
    REQUIRE(elements == unit.elements);
    REQUIRE(end <= unit.padded);
    REQUIRE(unit.padded - end < layout.world * kTensorAlignment);
  }
  REQUIRE(seen.size() == model.tensors.size());
}

}  // namespace

TEST_CASE("every tensor lies in exactly one unit, aligned, for all wraps and worlds") {
  for (const bool tied : {true, false}) {
    for (const std::int64_t width : {1, 7, 8, 65}) {
      ToyShape shape;
      shape.width = width;
      shape.tied = tied;
      shape.layers = 3;
      const ModelParts model = toy_model(shape);
      for (const std::int64_t world : {1, 2, 3, 5, 8, 64}) {
        check_layout(model, divide_into_units(model, Wrap::block, 0, world));
        check_layout(model, divide_into_units(model, Wrap::model, 0, world));
        for (const std::int64_t min : {1, 100, 1000, 10'000'000})
          check_layout(model, divide_into_units(model, Wrap::size, min, world));
      }
    }
  }
}

TEST_CASE("rows of zeros behind a table are in its unit and in no run") {
  const ModelParts model = toy_model();
  const UnitLayout layout = divide_into_units(model, Wrap::model, 0, 2);
  const Unit& unit = layout.units[UnitId(0)];
  int tables = 0;
  for (std::size_t i = 0; i + 1 < unit.tensors.size(); ++i) {
    const ParameterTensor& tensor = model.tensors[unit.tensors[i].tensor];
    const std::int64_t rows = tensor.is_table ? round_up(tensor.shape[0], 64) : tensor.shape[0];
    const std::int64_t columns = tensor.elements / tensor.shape[0];
    CHECK(tensor.padded_elements() == rows * columns);
    CHECK(unit.tensors[i + 1].offset == unit.tensors[i].offset + round_up(rows * columns, 64));
    CHECK((tensor.padded_elements() > tensor.elements) == tensor.is_table);
    tables += tensor.is_table ? 1 : 0;
  }
  CHECK(tables > 0);
  std::int64_t in_runs = 0;
  for (const TensorRun& run : runs_in_slice(model, unit, 0, unit.padded)) in_runs += run.count;
  CHECK(in_runs == model.parameter_count());
}

TEST_CASE("queries, keys and values follow each other without a gap, whatever the wrap and the optimizer") {
  Architecture a = preset("qwen2-0.5b");
  a.layers = 2, a.heads = 3, a.kv_heads = 1, a.width = 18, a.ffn_width = 13, a.vocab = 17, a.context = 9;
  const ModelParts model = declare_parts(a, 1, 4, DType::fp32);
  const std::int64_t query = 18 * 18, key = 6 * 18;  // no multiples of 64
  for (const bool matrices_first : {false, true}) {
    for (const Wrap wrap : {Wrap::block, Wrap::size, Wrap::model}) {
      const UnitLayout layout = divide_into_units(model, wrap, 100, 3, matrices_first);
      check_layout(model, layout);
      for (const TensorId id : model.tensors.ids()) {
        if (!model.tensors[id].name.ends_with("q_proj.weight")) continue;
        INFO(model.tensors[id].name);
        const TensorId bias = id + 1;
        CHECK(stack_of(model, id) == std::vector<TensorId>{id, id + 2, id + 4});
        CHECK(layout.offset_of[id + 2] == layout.offset_of[id] + query);
        CHECK(layout.offset_of[id + 4] == layout.offset_of[id] + query + key);
        CHECK(layout.offset_of[bias + 2] == layout.offset_of[bias] + 18);
        CHECK(layout.offset_of[bias + 4] == layout.offset_of[bias] + 18 + 6);
        for (const TensorId other : {id, bias}) {
          CHECK(layout.unit_of[other + 2] == layout.unit_of[other]);
          CHECK(layout.unit_of[other + 4] == layout.unit_of[other]);
        }
      }
    }
  }
  CHECK(std::ranges::none_of(parameter_tensors(preset("qwen3-0.6b")), [](const auto& t) { return bool(t.follows); }));
}

TEST_CASE("block wrap: tables, blocks, final norm") {
  const ModelParts model = toy_model();
  const UnitLayout layout = divide_into_units(model, Wrap::block, 0, 2);
  std::vector<std::string> names;
  for (const Unit& unit : layout.units) names.push_back(unit.name);
  REQUIRE(names == std::vector<std::string>{"wte", "wpe", "h.0", "h.1", "ln_f"});
  REQUIRE(layout.units[UnitId(2)].is_block);
  REQUIRE_FALSE(layout.units[UnitId(0)].is_block);
}

TEST_CASE("size wrap: half blocks below the minimum merge, a remainder joins the unit before it") {
  const ModelParts model = toy_model();  // halves of 8 + 192 + 64 = 264 and 8 + 256 + 256 = 520 elements
  auto names = [&](std::int64_t min) {
    std::vector<std::string> result;
    for (const Unit& unit : divide_into_units(model, Wrap::size, min, 2).units) result.push_back(unit.name);
    return result;
  };
  REQUIRE(names(264) == std::vector<std::string>{"wte", "wpe", "h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp..ln_f"});
  REQUIRE(names(500) == std::vector<std::string>{"wte", "wpe", "h.0.attn..h.0.mlp", "h.1.attn..ln_f"});
  REQUIRE(names(1 << 20) == std::vector<std::string>{"wte", "wpe", "h.0.attn..ln_f"});
}

TEST_CASE("runs of a slice cover each element once and leave padding out") {
  const ModelParts model = toy_model();
  for (const std::int64_t world : {1, 2, 3, 7}) {
    for (const Unit& unit : divide_into_units(model, Wrap::block, 0, world).units) {
      std::int64_t covered = 0;
      for (std::int64_t r = 0; r < world; ++r) {
        for (const TensorRun& run : runs_in_slice(model, unit, r * unit.share(world), unit.share(world))) {
          REQUIRE(run.offset >= 0);
          REQUIRE(run.offset + run.count <= unit.share(world));
          REQUIRE(run.first + run.count <= model.tensors[run.tensor].elements);
          covered += run.count;
        }
      }
      REQUIRE(covered == unit.elements);
    }
  }
}

TEST_CASE("weights of linears in fp8 are units of their own, and what is left of their blocks counts in no limit") {
  Architecture a = preset("qwen3-0.6b");
  a.layers = 2;
  const PartChoices choices{.fp8 = Fp8Linears{}};
  const ModelParts model = declare_parts(a, 1, 4, DType::bf16, DType::fp32, DeviceKind::cpu, choices);
  using Names = std::vector<std::string>;
  const std::pair<Wrap, Names> expected[] = {{Wrap::block, {"embed_tokens", "h.rest", "h.0", "h.1", "norm"}},
                                             {Wrap::model, {"model.rest", "model"}}};
  for (const auto& [wrap, names] : expected) {
    const UnitLayout layout = divide_into_units(model, wrap, 0, 4);
    check_layout(model, layout);
    Names found;
    for (const Unit& unit : layout.units) {
      found.push_back(unit.name);
      CHECK(unit.is_block == unit.is_fp8());
      std::int64_t elements = 0;
      for (const Fp8Weight& weight : unit.fp8_weights) elements += weight.elements;
      if (unit.is_fp8()) CHECK((elements == unit.padded && unit.fp8_weights[0].offset == 0));
    }
    CHECK(found == names);
  }
  // Linears that stay in the compute type are too large to be gathered for all blocks at once.
  a.heads = a.kv_heads = 4;  // heads of 128 in a width of 1024
  const PartChoices some{.fp8 = Fp8Linears{.smallest = 1024}};
  const ModelParts mixed = declare_parts(a, 1, 4, DType::bf16, DType::fp32, DeviceKind::cpu, some);
  Names found;
  for (const Unit& unit : divide_into_units(mixed, Wrap::block, 0, 4).units) found.push_back(unit.name);
  CHECK(found == Names{"embed_tokens", "h.0.rest", "h.0", "h.1.rest", "h.1", "norm"});
}

TEST_CASE("what trains of a block with adapters is a unit of its own, which counts in no limit") {
  Architecture a = preset("nano");
  a.layers = 2;
  a.adapters = {3, 6, 0, false, {"attn.c_attn", "mlp.c_fc"}};
  const ModelParts model = declare_parts(a, 1, 4, DType::fp32);
  using Names = std::vector<std::string>;
  const std::pair<Wrap, Names> expected[] = {
      {Wrap::block, {"wte", "wpe", "h.0", "h.0.lora", "h.1", "h.1.lora", "ln_f"}},
      {Wrap::size, {"wte", "wpe", "h.0.attn..h.0.mlp", "h.0.attn..h.1.mlp.lora", "h.1.attn..ln_f"}},
      {Wrap::model, {"model", "model.lora"}}};
  for (const auto& [wrap, names] : expected) {
    const UnitLayout layout = divide_into_units(model, wrap, 150000, 4);
    check_layout(model, layout);
    Names found;
    for (const Unit& unit : layout.units) {
      found.push_back(unit.name);
      CHECK(unit.trains == unit.name.ends_with(".lora"));
      if (unit.trains) CHECK_FALSE(unit.is_block);
      for (const TensorPlace& place : unit.tensors) CHECK(model.tensors[place.tensor].is_adapter == unit.trains);
    }
    CHECK(found == names);
  }
  const ModelParts frozen =
      declare_parts(a, 1, 4, DType::fp32, DType::fp32, DeviceKind::cpu, {.trains = [](const auto&) { return false; }});
  CHECK(divide_into_units(frozen, Wrap::block, 0, 1).units.size() == 5);
}
