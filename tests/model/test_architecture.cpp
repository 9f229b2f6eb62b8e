#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/model/constants.hpp"
#include "tessera/model/parts.hpp"

using namespace tessera;

namespace {

std::int64_t parameter_count(const std::string& name) {
  std::int64_t count = 0;
  for (const ParameterTensor& t : parameter_tensors(preset(name))) count += t.elements;
  return count;
}

const ParameterTensor& find(const std::vector<ParameterTensor>& tensors, const std::string& name) {
  for (const ParameterTensor& t : tensors) {
    if (t.name == name) return t;
  }
  throw std::runtime_error("no tensor " + name);
}

}  // namespace

TEST_CASE("presets have the published number of parameters", "[architecture]") {
  CHECK(parameter_count("gpt2-124m") == 124439808);
  CHECK(parameter_count("gpt2-350m") == 354823168);
  CHECK(parameter_count("gpt2-774m") == 774030080);
  CHECK(parameter_count("gpt2-1558m") == 1557611200);
  CHECK(parameter_count("qwen2-0.5b") == 494032768);
  CHECK(parameter_count("qwen2-1.5b") == 1543714304);
  CHECK(parameter_count("llama-1b") == 1235814400);
  CHECK(parameter_count("llama-8b") == 8030261248);
  CHECK(parameter_count("nano") < 1000000);
  for (const std::string& name : preset_names()) CHECK_NOTHROW(validate(preset(name)));
  CHECK_THROWS_WITH(preset("gpt5"), Catch::Contains("gpt2-124m") && Catch::Contains("model.preset"));
}

TEST_CASE("impossible shapes are refused with the option's name", "[architecture]") {
  const auto message = [](auto change) {
    Architecture a = preset("nano");
    change(a);
    try {
      validate(a);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(message([](Architecture& a) { a.heads = 3, a.kv_heads = 3; }), Catch::Contains("model.width"));
  CHECK_THAT(message([](Architecture& a) { a.layers = 0; }), Catch::Contains("model.layers"));
  CHECK_THAT(message([](Architecture& a) { a.vocab = std::int64_t{1} << 40; }), Catch::Contains("model.vocab"));
  CHECK_THAT(message([](Architecture& a) { a.kv_heads = 2; }), Catch::Contains("model.kv_heads"));
  CHECK_THAT(message([](Architecture& a) { a.heads = 1, a.kv_heads = 1, a.width = 512; }), Catch::Contains("256"));
  CHECK_THAT(message([](Architecture& a) { a.dropout = 1.0; }), Catch::Contains("model.dropout"));
  CHECK_THAT(message([](Architecture& a) { a.dropout = std::nan(""); }), Catch::Contains("model.dropout"));
  CHECK_THAT(message([](Architecture& a) { a.norm_epsilon = 0; }), Catch::Contains("epsilon"));
  CHECK_THAT(message([](Architecture& a) { a.norm = NormKind::rms_norm; }), Catch::Contains("model.family"));
  CHECK_THAT(message([](Architecture& a) { a = preset("qwen2-0.5b"), a.kv_heads = 3; }),
             Catch::Contains("model.kv_heads"));
  CHECK_THAT(message([](Architecture& a) { a = preset("llama-1b"), a.dropout = 0.1; }),
             Catch::Contains("model.dropout"));
  CHECK_THAT(message([](Architecture& a) { a = preset("llama-1b"), a.linear_bias = true; }),
             Catch::Contains("model.family"));
}

TEST_CASE("the rotary table is Llama 3's", "[constants]") {
  // Head width 64 and base 5e5 scaled by 32 from a context of 8192, as Llama 3.2 has them. Frequencies from Hugging
  // Face's rope_init_fn (transformers 5.23, fp32).
  ModelParts m = declare_parts(preset("llama-1b"), 1, 3, DType::bf16);
  REQUIRE(m.constants.size() == 1);
  for (const Part& p : m.parts) CHECK(p.constants.size() == (p.kind == PartKind::attention ? 1 : 0));
  const std::vector<float> table = constant_values(m, 0);
  REQUIRE(table.size() == 3 * 64);
  const std::pair<std::size_t, double> frequencies[] = {{0, 1},
                                                        {1, 0.663601279},
                                                        {10, 0.0165604409},
                                                        {14, 0.00321144611},
                                                        {15, 0.00129054801},
                                                        {16, 0.000429556705},
                                                        {17, 9.70828623e-05},
                                                        {18, 1.94616387e-05},
                                                        {20, 8.57025589e-06},
                                                        {25, 1.10288363e-06},
                                                        {31, 9.41830649e-08}};
  for (const auto& [i, f] : frequencies) {
    INFO("frequency " << i);
    for (std::size_t position = 0; position < 3; ++position) {
      const double angle = static_cast<double>(position) * f;
      CHECK(static_cast<double>(table[position * 64 + 2 * i]) == Approx(std::cos(angle)).margin(1e-12).epsilon(5e-7));
      CHECK(static_cast<double>(table[position * 64 + 2 * i + 1]) ==
            Approx(std::sin(angle)).margin(1e-12).epsilon(5e-7));
    }
  }
  CHECK(declare_parts(preset("nano"), 1, 3, DType::fp32).constants.empty());
  Architecture a = preset("llama-1b");
  a.rope_scaling.high_freq_factor = 0.5;
  CHECK_THROWS_WITH(validate(a), Catch::Contains("high_freq_factor"));
}

TEST_CASE("the inventory has Hugging Face's names, shapes and GPT-2's initialisation", "[parameters]") {
  const auto gpt2 = parameter_tensors(preset("gpt2-124m"));
  CHECK(gpt2.size() == 2 + 12 * 12 + 2);
  CHECK(gpt2.front().name == "transformer.wte.weight");
  CHECK(gpt2.back().name == "transformer.ln_f.bias");
  CHECK(find(gpt2, "transformer.h.11.attn.c_attn.weight").shape == std::vector<std::int64_t>{768, 2304});
  CHECK(find(gpt2, "transformer.h.0.mlp.c_proj.weight").shape == std::vector<std::int64_t>{3072, 768});
  CHECK(find(gpt2, "transformer.h.0.mlp.c_proj.weight").standard_deviation == Approx(0.02 / std::sqrt(24.0)));
  CHECK(find(gpt2, "transformer.wpe.weight").standard_deviation == 0.02);
  CHECK(find(gpt2, "transformer.wte.weight").is_table);
  CHECK_FALSE(find(gpt2, "transformer.wpe.weight").is_table);
  CHECK(find(gpt2, "transformer.h.0.ln_1.weight").initialization == Initialization::one);
  CHECK(find(gpt2, "transformer.h.0.ln_1.bias").initialization == Initialization::zero);
  for (const ParameterTensor& t : gpt2) CHECK(t.decays == (t.shape.size() == 2));

  const auto qwen = parameter_tensors(preset("qwen2-0.5b"));
  CHECK(find(qwen, "model.layers.3.self_attn.k_proj.weight").shape == std::vector<std::int64_t>{128, 896});
  CHECK(find(qwen, "model.layers.3.self_attn.k_proj.bias").shape == std::vector<std::int64_t>{128});
  CHECK(find(qwen, "model.layers.3.mlp.down_proj.weight").shape == std::vector<std::int64_t>{896, 4864});
  const auto llama = parameter_tensors(preset("llama-8b"));
  CHECK(llama.back().name == "lm_head.weight");
  CHECK(llama.back().is_table);
  CHECK_THROWS(find(llama, "model.layers.0.self_attn.q_proj.bias"));
}

TEST_CASE("parts cover every tensor, name what backward reads and count the work", "[parts]") {
  for (const std::string& name : preset_names()) {
    INFO(name);
    const Architecture a = preset(name);
    const ModelParts m = declare_parts(a, 2, 64, DType::bf16, DType::fp32);
    REQUIRE(m.parts.size() == static_cast<std::size_t>(2 * a.layers + 2));
    CHECK(m.parts.front().name == "embed");
    CHECK(m.parts[1].name == "h.0.attn");
    CHECK(m.parts[2].name == "h.0.mlp");
    CHECK(m.parts.back().name == "head");
    std::set<TensorId> seen;
    for (const Part& p : m.parts) {
      CHECK(p.tensors.size() == p.read_in_backward.size());
      for (std::size_t i = 0; i < p.tensors.size(); ++i) {
        const ParameterTensor& t = m.tensors[static_cast<std::size_t>(p.tensors[i])];
        const bool again = !seen.insert(p.tensors[i]).second;
        CHECK(again == (p.kind == PartKind::head && t.is_table && a.tied_head));
        if (p.kind == PartKind::embedding) CHECK_FALSE(p.read_in_backward[i]);
        if (t.shape.size() == 2 && p.kind != PartKind::embedding) CHECK(p.read_in_backward[i]);
      }
      CHECK(p.backward.bytes > 0);
      if (p.kind != PartKind::embedding) CHECK(p.backward.flops >= 2 * p.forward.flops);
    }
    CHECK(seen.size() == m.tensors.size());
    // 2 FLOPs per weight and token forward, 4 backward, for everything except the tables that are looked up; attention
    // apart.
    std::int64_t matrices = a.vocab * a.width;
    for (const ParameterTensor& t : m.tensors) {
      if (t.shape.size() == 2 && !t.is_table && t.name != "transformer.wpe.weight") matrices += t.elements;
    }
    const std::int64_t attention = 7 * a.layers * m.tokens() * (m.sequence + 1) * a.width;
    CHECK(m.training_flops() == 6 * m.tokens() * matrices + attention);
  }
  CHECK_THROWS_WITH(declare_parts(preset("nano"), 1, 257, DType::fp32), Catch::Contains("train.seq_len"));
  CHECK_THROWS_WITH(declare_parts(preset("nano"), 0, 1, DType::fp32), Catch::Contains("train.micro_batch"));
}
