#include <fmt/ranges.h>

#include <set>

#include "model/decoder_case.hpp"
#include "tessera/model/adapters.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

Architecture adapted(Architecture a, std::string_view targets, std::int64_t rank = 3, double dropout = 0) {
  a.adapters = {rank, 5, dropout, false, named_modules(a, targets)};
  return a;
}

Architecture small_gemma3() {
  Architecture a = small_rotary(Family::gemma3, {2, 4, 2, 18, 13, 17}, true);
  a.head_dim = 6, a.window = 3, a.full_every = 2;
  return a;
}

std::vector<Architecture> every_family() {
  return {small(2, 2, 6, 13), small_qwen2(), small_llama(), small_qwen3(), small_gemma3()};
}

/// The names of the tensors that train, without their block's prefix.
std::set<std::string> trained_in_block(const Architecture& a, const std::string& prefix) {
  std::set<std::string> names;
  const ModelParts model = declare_parts(a, 1, 2, DType::fp32);
  for (const ParameterTensor& tensor : model.tensors) {
    CHECK(tensor.trains == tensor.is_adapter);
    if (tensor.trains && tensor.name.starts_with(prefix)) names.insert(tensor.name.substr(prefix.size()));
  }
  return names;
}

}  // namespace

TEST_CASE("adapters of all linears against the double-precision decoder", "[decoder][adapters]") {
  for (const Architecture& a : every_family()) {
    INFO(name_of(a.family));
    compare_with_double(adapted(a, "all"), 2, 5, DType::fp32, DType::fp32, 1e-6, 1e-5);
    // Of rank 1, so that one rounded number a token stands for a whole adapter: 0.17 with matmuls in bf16, 0.32 in
    // fp32.
    compare_with_double(adapted(a, "all", 1), 1, 9, DType::bf16, DType::fp32, 1e-2, 0.4);
  }
}

TEST_CASE("adapters of each single module against the double-precision decoder", "[decoder][adapters]") {
  for (const Architecture& a : every_family()) {
    for (const std::string& module : linear_modules(a)) {
      INFO(name_of(a.family) << " " << module);
      compare_with_double(adapted(a, module, 2), 1, 4, DType::fp32, DType::fp32, 1e-6, 1e-5);
    }
  }
}

TEST_CASE("adapters that begin at zero change nothing, and the model's own tensors keep numbers and values",
          "[adapters]") {
  for (const Architecture& a : every_family()) {
    const Architecture with = adapted(a, "all");
    const auto own = parameter_tensors(a), all = parameter_tensors(with);
    REQUIRE(all.size() > own.size());
    for (const TensorId id : all.ids()) {
      CHECK(all[id].is_adapter == (id >= own.end_id()));
      if (id < own.end_id()) CHECK((all[id].name == own[id].name && all[id].shape == own[id].shape));
    }
    ModelRun plain(a, 2, 5, DType::fp32, DType::fp32, 1), run(with, 2, 5, DType::fp32, DType::fp32, 1);
    for (ModelRun* one : {&plain, &run}) {
      for (int i = 0; i < 10; ++i) one->tokens.push_back(i % 5), one->targets.push_back(i % 3);
    }
    CHECK(run.evaluate() == plain.evaluate());
  }
}

TEST_CASE("A begins uniform within 1 / sqrt(in), as in PEFT, and in any slices", "[adapters]") {
  Architecture a = small(1, 4, 400, 7);
  const auto tensors = parameter_tensors(adapted(a, "attn.c_attn", 64));
  const TensorId id = tensors.end_id() - 2;
  REQUIRE(tensors[id].name == "transformer.h.0.attn.c_attn.lora_A.weight");
  REQUIRE(tensors[id].shape == std::vector<std::int64_t>{64, 400});
  std::vector<float> whole(64 * 400), piece(101);
  initialize_slice(tensors[id], id, 3, 0, whole);
  initialize_slice(tensors[id], id, 3, 1003, piece);
  CHECK(std::equal(piece.begin(), piece.end(), whole.begin() + 1003));
  double sum = 0, squares = 0;
  float least = 0, greatest = 0;
  for (const float v : whole)
    sum += v, squares += double(v) * v, least = std::min(least, v), greatest = std::max(greatest, v);
  CHECK((least >= -0.05f && least < -0.0499f && greatest < 0.05f && greatest > 0.0499f));
  CHECK(std::abs(sum / 25600) < 1e-3);
  CHECK(squares / 25600 == Approx(0.05 * 0.05 / 3).epsilon(0.02));
  std::vector<float> other(64 * 400, 1.0f);
  initialize_slice(tensors[id + 1], id + 1, 3, 0, std::span(other).first(64));
  CHECK(std::count(other.begin(), other.begin() + 64, 0.0f) == 64);
}

TEST_CASE("each adapter has a mask of its own, which no other layer has", "[adapters][dropout]") {
  for (const Architecture& a : every_family()) {
    const ModelParts model = declare_parts(adapted(a, "all", 3, 0.3), 1, 2, DType::fp32);
    std::set<std::pair<bool, std::int32_t>> masks;
    std::size_t adapters = 0;
    for (const Part& part : model.parts) {
      for (const Layer& layer : part.layers) {
        if (layer.adapter < 0) continue;
        CHECK(layer.adapter >= a.layers);  // below are residual dropouts of blocks
        masks.emplace(part.kind == PartKind::mlp, layer.adapter);
        ++adapters;
      }
    }
    CHECK(adapters == static_cast<std::size_t>(a.layers) * linear_modules(a).size());
    CHECK(masks.size() == adapters);
  }
}

TEST_CASE("with dropout of what adapters read, backward is the gradient of the forward of the same step",
          "[decoder][dropout][adapters]") {
  for (Architecture a : every_family()) {
    INFO(name_of(a.family));
    if (a.family == Family::gpt2) a.dropout = 0.2;
    ModelRun run(adapted(a, "all", 3, 0.3), 2, 20, DType::fp32, DType::fp32, 2);
    prepare(run);
    run.train();
    const double with_dropout = run.loss;
    check_along_gradient(run, 4e-3);
    CHECK(run.evaluate() == with_dropout);
    run.evaluation = true;
    CHECK(run.evaluate() != with_dropout);
    CHECK(run.intact());
  }
}

TEST_CASE("adapters are never in fp8, and their linears are", "[adapters]") {
  const Architecture a = adapted(small_qwen2(), "all", 4);
  const ModelParts model =
      declare_parts(a, 1, 2, DType::bf16, DType::fp32, DeviceKind::cpu, {.fp8 = Fp8Linears{0, Fp8::e5m2}});
  for (const Part& part : model.parts) {
    for (const Layer& layer : part.layers) {
      if (layer.kind == LayerKind::linear && part.block >= 0)
        CHECK(layer.is_fp8 == !model.tensors[part.tensors[layer.weight]].is_adapter);
    }
  }
  CHECK(describe_fp8(model) ==
        fmt::format("{0} of {0} linears in fp8 (sides from 0 on, gradients e5m2)", 5 * a.layers));
}

TEST_CASE("modules are named as PEFT does, and unknown ones are refused with those that exist", "[adapters]") {
  const Architecture gpt2 = small(2, 2, 6, 13), qwen2 = small_qwen2();
  using Names = std::vector<std::string>;
  CHECK(linear_modules(gpt2) == Names{"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"});
  CHECK(linear_modules(qwen2) == Names{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                       "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"});
  CHECK(named_modules(qwen2, "v_proj,q_proj") == Names{"self_attn.q_proj", "self_attn.v_proj"});
  CHECK(named_modules(qwen2, " v_proj, q_proj ") == Names{"self_attn.q_proj", "self_attn.v_proj"});
  CHECK(named_modules(qwen2, "all-linear") == named_modules(qwen2, "all"));
  CHECK(named_modules(gpt2, "c_proj") == Names{"attn.c_proj", "mlp.c_proj"});
  CHECK(named_modules(gpt2, "mlp.c_proj") == Names{"mlp.c_proj"});
  for (const char* const wrong : {"q_proj", "", "c_proj,", "c_attn, , c_fc", "proj", "attn", "ln_1", "wte"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(named_modules(gpt2, wrong),
                      Catch::Contains("Use all, or some of attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj."));
  }
  CHECK(short_names(gpt2, {"attn.c_attn", "mlp.c_proj"}) == Names{"c_attn", "mlp.c_proj"});
  CHECK(short_names(gpt2, linear_modules(gpt2)) == Names{"c_attn", "c_proj", "c_fc"});
  for (const char* const list : {"all", "c_proj", "c_attn", "mlp.c_proj,c_fc"}) {
    const auto modules = named_modules(gpt2, list);
    CHECK(named_modules(gpt2, fmt::format("{}", fmt::join(short_names(gpt2, modules), ","))) == modules);
  }
}

TEST_CASE("only the adapters train, as many in every block", "[adapters]") {
  const Architecture a = adapted(small_qwen2(), "q_proj,v_proj,down_proj");
  const std::set<std::string> names{"self_attn.q_proj.lora_A.weight", "self_attn.q_proj.lora_B.weight",
                                    "self_attn.v_proj.lora_A.weight", "self_attn.v_proj.lora_B.weight",
                                    "mlp.down_proj.lora_A.weight",    "mlp.down_proj.lora_B.weight"};
  CHECK(trained_in_block(a, "model.layers.0.") == names);
  CHECK(trained_in_block(a, "model.layers.1.") == names);
  const ModelParts model = declare_parts(a, 2, 3, DType::fp32);
  CHECK(
      describe_adapters(model).starts_with("rank 3, alpha 5, on self_attn.q_proj, self_attn.v_proj, mlp.down_proj; "));
  CHECK(model.first_trained() == PartId(1));
  CHECK(declare_parts(adapted(small_qwen2(), "up_proj"), 2, 3, DType::fp32).first_trained() == PartId(2));
}
