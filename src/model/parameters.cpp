// The parameter inventory of every family, under Hugging Face names and shapes, in forward order of first use.

#include <cmath>

#include "tessera/base/math.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

namespace {

constexpr double kDeviation = 0.02;  ///< of GPT-2's weights (Radford et al. 2019) and Hugging Face's initializer_range

class Inventory {
 public:
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns, double deviation = kDeviation) {
    ParameterTensor t;
    t.name = name;
    t.shape = {rows, columns};
    t.elements = checked_multiply(rows, columns);
    t.initialization = Initialization::normal;
    t.standard_deviation = deviation;
    t.decays = true;
    tensors.push_back(std::move(t));
  }
  void table(const std::string& name, std::int64_t rows, std::int64_t columns) {
    matrix(name, rows, columns);
    tensors.back().is_table = true;
  }
  void vector(const std::string& name, std::int64_t length, Initialization initialization) {
    ParameterTensor t;
    t.name = name;
    t.shape = {length};
    t.elements = length;
    t.initialization = initialization;
    tensors.push_back(std::move(t));
  }
  void gain(const std::string& name, std::int64_t length) { vector(name, length, Initialization::one); }
  void bias(const std::string& name, std::int64_t length) { vector(name, length, Initialization::zero); }

  IndexedVector<TensorId, ParameterTensor> tensors;
};

/// Lists GPT-2's tensors. Its Conv1D weights are [in, out]; projections onto the residual stream start smaller by
/// sqrt(2 layers).
IndexedVector<TensorId, ParameterTensor> gpt2_tensors(const Architecture& a) {
  Inventory inventory;
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(a.layers));
  inventory.table("transformer.wte.weight", a.vocab, a.width);
  inventory.matrix("transformer.wpe.weight", a.context, a.width);
  for (std::int64_t i = 0; i < a.layers; ++i) {
    const std::string h = fmt::format("transformer.h.{}.", i);
    inventory.gain(h + "ln_1.weight", a.width);
    inventory.bias(h + "ln_1.bias", a.width);
    inventory.matrix(h + "attn.c_attn.weight", a.width, 3 * a.width);
    inventory.bias(h + "attn.c_attn.bias", 3 * a.width);
    inventory.matrix(h + "attn.c_proj.weight", a.width, a.width, residual);
    inventory.bias(h + "attn.c_proj.bias", a.width);
    inventory.gain(h + "ln_2.weight", a.width);
    inventory.bias(h + "ln_2.bias", a.width);
    inventory.matrix(h + "mlp.c_fc.weight", a.width, a.ffn_width);
    inventory.bias(h + "mlp.c_fc.bias", a.ffn_width);
    inventory.matrix(h + "mlp.c_proj.weight", a.ffn_width, a.width, residual);
    inventory.bias(h + "mlp.c_proj.bias", a.width);
  }
  inventory.gain("transformer.ln_f.weight", a.width);
  inventory.bias("transformer.ln_f.bias", a.width);
  if (!a.tied_head) inventory.table("lm_head.weight", a.vocab, a.width);
  return std::move(inventory.tensors);
}

/// Lists the tensors of Qwen2 and Llama: weights are [out, in]; Qwen2 has biases on query, key and value.
IndexedVector<TensorId, ParameterTensor> llama_tensors(const Architecture& a) {
  Inventory inventory;
  const std::int64_t kv_width = a.kv_heads * a.head_width();
  inventory.table("model.embed_tokens.weight", a.vocab, a.width);
  for (std::int64_t i = 0; i < a.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const auto projection = [&](const std::string& name, std::int64_t out) {
      inventory.matrix(fmt::format("{}self_attn.{}.weight", layer, name), out, a.width);
      if (a.qkv_bias) inventory.bias(fmt::format("{}self_attn.{}.bias", layer, name), out);
    };
    inventory.gain(layer + "input_layernorm.weight", a.width);
    projection("q_proj", a.width);
    projection("k_proj", kv_width);
    projection("v_proj", kv_width);
    inventory.matrix(layer + "self_attn.o_proj.weight", a.width, a.width);
    inventory.gain(layer + "post_attention_layernorm.weight", a.width);
    inventory.matrix(layer + "mlp.gate_proj.weight", a.ffn_width, a.width);
    inventory.matrix(layer + "mlp.up_proj.weight", a.ffn_width, a.width);
    inventory.matrix(layer + "mlp.down_proj.weight", a.width, a.ffn_width);
  }
  inventory.gain("model.norm.weight", a.width);
  if (!a.tied_head) inventory.table("lm_head.weight", a.vocab, a.width);
  return std::move(inventory.tensors);
}

}  // namespace

IndexedVector<TensorId, ParameterTensor> parameter_tensors(const Architecture& architecture) {
  validate(architecture);
  return architecture.family == Family::gpt2 ? gpt2_tensors(architecture) : llama_tensors(architecture);
}

std::int64_t ParameterTensor::padded_elements() const {
  return is_table ? checked_multiply(round_up(shape.at(0), kTableRows), elements / shape.at(0)) : elements;
}

std::int64_t ModelParts::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterTensor& tensor : tensors) count = checked_add(count, tensor.elements);
  return count;
}

std::int64_t ModelParts::training_flops() const {
  std::int64_t flops = 0;
  for (const Part& part : parts) flops += part.backward.flops + (part.kind == PartKind::head ? 0 : part.forward.flops);
  return flops;
}

}  // namespace tessera
