#pragma once
// Declarations of a small decoder, made by hand, for tests of modules that only read declarations.

#include "tessera/model/parts.hpp"

namespace tessera::testing {

struct ToyShape {
  std::int64_t layers = 2, width = 8, vocab = 50, context = 16, batch = 2, sequence = 5;
  bool tied = true;
  DType compute = DType::fp32;
  bool rotary = false;  ///< attention reads a constant
};

inline ModelParts toy_model(const ToyShape& shape = {}) {
  ModelParts model;
  model.architecture.layers = shape.layers;
  model.architecture.width = shape.width;
  model.architecture.vocab = shape.vocab;
  model.architecture.context = shape.context;
  model.architecture.tied_head = shape.tied;
  model.batch = shape.batch;
  model.sequence = shape.sequence;
  model.compute = shape.compute;
  const std::int64_t C = shape.width, tokens = model.tokens();
  if (shape.rotary) model.constants = {{"rotary", DType::fp32, shape.sequence * C}};
  int block = -1;
  auto tensor = [&](const std::string& name, std::vector<std::int64_t> dims, bool table = false) {
    ParameterTensor t;
    t.name = "transformer." + name;
    t.elements = 1;
    for (const auto d : dims) t.elements *= d;
    t.decays = dims.size() > 1;
    t.shape = std::move(dims);
    t.is_table = table;
    t.block = block;
    model.tensors.push_back(t);
    return TensorId(model.tensors.size()) - 1;
  };
  auto cost = [](std::int64_t scratch) { return PartCost{scratch, 1000}; };
  const TensorId wte = tensor("wte.weight", {shape.vocab, C}, true);
  const TensorId wpe = tensor("wpe.weight", {shape.context, C});
  model.parts.push_back({"embed", PartKind::embedding, -1, {wte, wpe}, {false, false}, {}, cost(0), cost(64), cost(0)});
  for (block = 0; block < static_cast<int>(shape.layers); ++block) {
    const std::string h = "h." + std::to_string(block) + ".";
    const TensorId ln1 = tensor(h + "ln_1.weight", {C}), qkv = tensor(h + "attn.c_attn.weight", {C, 3 * C}),
                   proj = tensor(h + "attn.c_proj.weight", {C, C});
    model.parts.push_back({h + "attn",
                           PartKind::attention,
                           block,
                           {ln1, qkv, proj},
                           {true, true, true},
                           {{"qkv", shape.compute, tokens * 3 * C}, {"lse", DType::fp32, tokens}},
                           cost(100),
                           cost(300),
                           cost(100)});
    if (shape.rotary) model.parts.back().constants = {0};
    const TensorId ln2 = tensor(h + "ln_2.weight", {C}), fc = tensor(h + "mlp.c_fc.weight", {C, 4 * C}),
                   out = tensor(h + "mlp.c_proj.weight", {4 * C, C});
    model.parts.push_back({h + "mlp",
                           PartKind::mlp,
                           block,
                           {ln2, fc, out},
                           {true, true, true},
                           {{"pre", shape.compute, tokens * 4 * C}},
                           cost(200),
                           cost(500),
                           cost(150)});
  }
  block = -1;
  std::vector<TensorId> head{tensor("ln_f.weight", {C})};
  head.push_back(shape.tied ? wte : tensor("lm_head.weight", {shape.vocab, C}, true));
  model.parts.push_back({"head", PartKind::head, -1, head, {true, true}, {}, cost(400), cost(900), cost(0)});
  return model;
}

/// Returns a model of which nothing trains.
inline ModelParts frozen(ModelParts model) {
  for (ParameterTensor& tensor : model.tensors) tensor.trains = false;
  return model;
}

/// Returns a model of which the linears of blocks multiply in fp8.
inline ModelParts in_fp8(ModelParts model) {
  for (Part& part : model.parts) {
    for (std::int32_t place = 0; part.block >= 0 && place < std::ssize(part.tensors); ++place) {
      const std::vector<std::int64_t>& shape = model.tensors[part.tensors[static_cast<std::size_t>(place)]].shape;
      if (shape.size() < 2) continue;
      Layer linear;
      linear.kind = LayerKind::linear, linear.weight = place, linear.in = shape[0], linear.out = shape[1];
      linear.is_fp8 = true;
      part.layers.push_back(linear);
    }
  }
  return model;
}

/// A declaration that has a form for generation too.
inline ModelParts generating_model(DType compute = DType::fp32, DType gradient = DType::fp32) {
  Architecture a = preset("llama-8b");
  a.layers = 2, a.heads = 2, a.kv_heads = 1, a.width = 8, a.ffn_width = 12, a.vocab = 50, a.context = 16;
  a.tied_head = true;
  return declare_parts(a, 2, 5, compute, gradient);
}

}  // namespace tessera::testing
