#include "tessera/model/parts.hpp"

#include <algorithm>

#include "model/blocks.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

IndexedVector<TensorId, ParameterTensor> parameter_tensors(const Architecture& architecture) {
  ModelParts model;
  model.architecture = architecture;
  model.batch = model.sequence = 1;
  build_layers(model);
  return std::move(model.tensors);
}

ModelParts declare_parts(const Architecture& architecture, std::int64_t batch, std::int64_t sequence, DType compute,
                         DType gradient, DeviceKind device, const PartChoices& choices) {
  if (batch < 1) throw refusal("train.micro_batch = {} holds no sequence", batch).use("at least 1");
  if (sequence < 1 || sequence > architecture.context) {
    throw refuse("train.seq_len", sequence)
        .because("the model's context is {}", architecture.context)
        .use("1 to {}", architecture.context);
  }
  checked_multiply(checked_multiply(batch, sequence), 16 * checked_add(architecture.vocab, architecture.ffn_width));
  ModelParts model;
  model.architecture = architecture;
  model.batch = batch, model.sequence = sequence;
  model.compute = compute, model.gradient = gradient, model.device = device;
  model.keeps_activated = choices.keeps_activated, model.documents = choices.documents;
  model.fp8 = choices.fp8;
  model.logits = choices.has_fp32_logits ? DType::fp32 : compute;
  if (choices.mlp_chunk < model.tokens()) model.mlp_chunk = choices.mlp_chunk;
  // With dropout the gradient of a projection's output is not the residual stream's. Sums are over all rows.
  if (architecture.linear_bias && architecture.dropout == 0 && model.mlp_chunk == 0)
    model.gradient_sum_rows = kernel_needs(device).gradient_sum_rows(model.tokens(), architecture.width);
  build_layers(model);
  for (ParameterTensor& tensor : model.tensors) {
    tensor.trains = tensor.is_adapter || !architecture.adapters.on();
    if (choices.trains) tensor.trains = choices.trains(tensor);
  }
  AttentionShape shape = attention_shape(model, attention_layer(model));
  if (model.documents) shape.documents = checked_multiply(batch, std::min(choices.most_documents, sequence));
  if (!model.documents || shape.documents > 0)
    model.attention = possible_attention(choices.attention, shape, compute, architecture.dropout > 0);
  if (model.attention != GpuAttention::own) model.most_documents = shape.documents;
  plan_parts(model);
  return model;
}

ModelParts declare_generation(const Architecture& architecture, std::int64_t batch, std::int64_t rows,
                              std::int64_t chunk, std::int64_t positions, DType compute, DeviceKind device,
                              const std::optional<Fp8Linears>& fp8, bool mlp_saves) {
  TESSERA_ASSERT(batch > 0 && rows > 0 && rows <= chunk && chunk <= positions && positions <= architecture.context,
                 "generation of {} sequences, {} of {} rows and {} positions in a context of {}", batch, rows, chunk,
                 positions, architecture.context);
  checked_multiply(checked_multiply(batch, positions), 16 * checked_add(architecture.vocab, architecture.ffn_width));
  ModelParts model;
  model.architecture = architecture;
  model.architecture.dropout = model.architecture.adapters.dropout = 0;
  model.batch = batch, model.sequence = rows, model.chunk = chunk, model.cache = positions;
  model.compute = compute, model.gradient = compute, model.device = device, model.fp8 = fp8;
  if (!mlp_saves) model.mlp_chunk = model.tokens();
  build_layers(model);
  for (ParameterTensor& tensor : model.tensors) tensor.trains = false;
  plan_parts(model);
  return model;
}

std::string describe_fp8(const ModelParts& model) {
  if (!model.fp8) return {};
  int linears = 0, in_fp8 = 0;
  for (const Part& part : model.parts) {
    for (const Layer& layer : part.layers) {
      const bool is_own = layer.kind == LayerKind::linear && !model.tensors[part.tensors[layer.weight]].is_adapter;
      linears += is_own && part.block >= 0, in_fp8 += layer.is_fp8;
    }
  }
  return fmt::format("{} of {} linears in fp8 (sides from {} on, gradients {})", in_fp8, linears, model.fp8->smallest,
                     name_of(model.fp8->gradients));
}

std::string describe_adapters(const ModelParts& model) {
  if (!model.architecture.adapters.on()) return {};
  std::int64_t trained = 0;
  for (const ParameterTensor& tensor : model.tensors) trained += tensor.is_adapter ? tensor.elements : 0;
  return fmt::format("{}; {} of {} parameters train", describe(model.architecture.adapters), format_count(trained),
                     format_count(model.parameter_count()));
}

const Layer& attention_layer(const ModelParts& model) {
  const Layer* found = nullptr;
  for (const Part& part : model.parts) {
    for (const Layer& layer : part.layers) {
      if (layer.kind == LayerKind::attention && (found == nullptr || (found->window > 0 && layer.window == 0)))
        found = &layer;
    }
  }
  return *found;
}

AttentionShape attention_shape(const ModelParts& model, const Layer& attention) {
  return {model.batch,          model.sequence,   attention.heads,     attention.kv_heads,
          attention.head_width, attention.window, model.most_documents};
}

void fill_borders(const ModelParts& model, std::int32_t* input) {
  std::int32_t* const borders = model.borders_in(input);
  if (borders == nullptr) return;
  const std::int32_t* const positions = input + 2 * model.tokens();
  std::int64_t documents = 0;
  for (std::int64_t token = 0; token < model.tokens(); ++token) {
    if (positions[token] > 0 && token % model.sequence > 0) continue;
    TESSERA_ASSERT(documents < model.most_documents, "a micro-batch of more than {} documents", model.most_documents);
    borders[documents++] = static_cast<std::int32_t>(token);
  }
  std::fill(borders + documents, borders + model.most_documents + 1, static_cast<std::int32_t>(model.tokens()));
}

std::int64_t ModelParts::cache_elements(const Part& part) const {
  std::int64_t positions = 0;
  for (const Layer& layer : part.layers) positions = std::max(positions, layer.cache);
  return 2 * batch * positions * architecture.key_width();
}

std::int64_t ParameterTensor::padded_elements() const {
  return is_table ? checked_multiply(round_up(shape.at(0), kTableRows), elements / shape.at(0)) : elements;
}

std::int64_t ModelParts::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterTensor& tensor : tensors) count = checked_add(count, tensor.elements);
  return count;
}

TensorId ModelParts::first_trained_tensor() const {
  return TensorId(std::ranges::find(tensors, true, &ParameterTensor::trains) - tensors.begin());
}

PartId ModelParts::first_trained() const {
  const auto trains = [&](const Part& part) {
    return std::ranges::any_of(part.tensors, [&](TensorId id) { return tensors[id].trains; });
  };
  return PartId(std::ranges::find_if(parts, trains) - parts.begin());
}

std::int64_t ModelParts::training_flops() const {
  std::int64_t flops = 0;
  for (const Part& part : parts) {
    flops += part.backward.flops + (part.kind == PartKind::head ? 0 : part.forward.flops);
    if (part.chunk > 0 && part.backward.flops > 0) flops -= part.recompute.flops;
  }
  return flops;
}

std::int64_t ModelParts::gradient_sums_offset() const { return round_up(residual_elements(), 64); }

std::int64_t ModelParts::gradient_largest_offset() const {
  return gradient_sums_offset() + gradient_sum_rows * architecture.width * size_of(DType::fp32) / size_of(compute);
}

std::int64_t ModelParts::residual_gradient_elements() const {
  if (gradient_sum_rows == 0 && !measures_gradient) return residual_elements();
  return gradient_largest_offset() + (measures_gradient ? size_of(DType::fp32) / size_of(compute) : 0);
}

}  // namespace tessera
