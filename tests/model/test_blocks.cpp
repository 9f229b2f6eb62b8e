#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tessera/model/parts.hpp"

using namespace tessera;

namespace {

const ParameterTensor& find(const std::vector<ParameterTensor>& tensors, const std::string& name) {
  for (const ParameterTensor& t : tensors) {
    if (t.name == name) return t;
  }
  throw std::runtime_error("no tensor " + name);
}

}  // namespace

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

TEST_CASE("the inventory of any sizes has the closed form's number of elements, and names of its own", "[parameters]") {
  for (const char* name : {"nano", "qwen2-0.5b", "llama-8b"}) {
    for (const bool tied : {true, false}) {
      INFO(name << (tied ? ", tied" : ", untied"));
      Architecture a = preset(name);
      a.layers = 3, a.heads = 6, a.kv_heads = a.family == Family::gpt2 ? 6 : 2, a.width = 42 * 6, a.ffn_width = 77;
      a.vocab = 131, a.context = 19, a.tied_head = tied;
      const std::int64_t w = a.width, f = a.ffn_width, kv = a.width / 6 * a.kv_heads,
                         biases = a.qkv_bias ? w + 2 * kv : 0;
      const std::int64_t block = a.family == Family::gpt2 ? 4 * w * w + 4 * w + 2 * w * f + f + w + 4 * w
                                                          : 2 * w * (w + kv) + biases + 3 * w * f + 2 * w;
      const std::int64_t ends = a.family == Family::gpt2 ? a.context * w + 2 * w : w;
      std::int64_t elements = 0;
      std::set<std::string> names;
      for (const ParameterTensor& t : parameter_tensors(a)) {
        std::int64_t size = 1;
        for (const std::int64_t extent : t.shape) size *= extent;
        CHECK(size == t.elements);
        elements += t.elements;
        names.insert(t.name);
      }
      CHECK(elements == 3 * block + ends + (tied ? 1 : 2) * a.vocab * w);
      CHECK(names.size() == parameter_tensors(a).size());
    }
  }
}

TEST_CASE("layers read what layers before them made, and use every tensor of their part", "[parameters]") {
  for (const std::string& name : preset_names()) {
    Architecture a = preset(name);
    a.layers = 2;
    for (const ModelParts& model :
         {declare_parts(a, 2, 16, DType::bf16), declare_generation(a, 3, 4, 4, 16, DType::bf16, DeviceKind::cpu)}) {
      for (const Part& part : model.parts) {
        INFO(name << " " << part.name);
        std::set<MatrixId> made{kPartInput};
        std::set<TensorId> used;
        for (const Layer& layer : part.layers) {
          for (const MatrixSlice& slice : layer.inputs) CHECK(made.contains(slice.matrix));
          for (const MatrixSlice& slice : layer.outputs) made.insert(slice.matrix);
          for (const std::int32_t place : {layer.weight, layer.bias, layer.table})
            if (place >= 0) CHECK(used.insert(part.tensors.at(static_cast<std::size_t>(place))).second);
        }
        for (TensorId id : part.tensors) {
          while (model.tensors[id].follows) id = model.tensors[id].follows;  // the first rows of its weight
          CHECK(used.contains(id));
        }
        CHECK(made.contains(kPartOutput) == (part.kind != PartKind::head));
      }
    }
  }
}

TEST_CASE("backward takes each layer once, its weights after whatever it makes again", "[parameters]") {
  for (const std::string& name : preset_names()) {
    const ModelParts model = declare_parts(preset(name), 1, 16, DType::fp32);
    for (const Part& part : model.parts) {
      INFO(name << " " << part.name);
      using Half = BackwardTurn::Half;
      std::vector<int> halves(part.layers.size(), 0);
      std::set<MatrixId> again;
      for (const BackwardTurn& turn : part.backward_turns) {
        const Layer& layer = part.layers[turn.layer];
        halves[turn.layer] += turn.half == Half::both ? 2 : 1;
        const bool is_linear = layer.kind == LayerKind::linear;
        if (turn.half == Half::weights) CHECK((is_linear && again.contains(layer.inputs[0].matrix)));
        if (!is_linear && !layer.outputs.empty()) again.insert(layer.outputs[0].matrix);
      }
      for (const int both : halves) CHECK(both == 2);
    }
  }
}
