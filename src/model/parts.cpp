// The parts of a model: the tensors that each reads, the values it saves, the cost of each direction.

#include "tessera/model/parts.hpp"

#include "model/part_scratch.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera {

namespace {

class Declaration {
 public:
  explicit Declaration(ModelParts& model) : model_(model), a_(model.architecture) {}

  void all_parts() {
    embedding();
    for (int block = 0; block < a_.layers; ++block) {
      attention(block);
      mlp(block);
    }
    head();
  }

 private:
  /// Starts a part that reads the next tensors, which are its family's rows of this kind.
  Part& start(std::string name, PartKind kind, int block = -1) {
    Part& part = model_.parts.emplace_back();
    part.name = std::move(name), part.kind = kind, part.block = block;
    for (const TensorRow& row : rules_of(a_.family).tensors) {
      if (part_of(row.role) == kind && row.is_in(a_)) reads(part, next_++, row.in_backward);
    }
    return part;
  }
  void reads(Part& part, TensorId tensor, InBackward in_backward) {
    part.tensors.push_back(tensor);
    part.read_in_backward.push_back(in_backward == InBackward::read);
  }
  void saves(Part& part, SavedRole role, const char* name, DType dtype, std::int64_t elements) {
    part.saved.push_back({name, dtype, elements, role});
  }
  void saves_norm(Part& part) {
    if (a_.subtracts_mean()) saves(part, SavedRole::mean, "mean", DType::fp32, model_.tokens());
    saves(part, SavedRole::reciprocal_deviation, "reciprocal_deviation", DType::fp32, model_.tokens());
  }

  std::int64_t elements_of(const Part& part) const {
    std::int64_t sum = 0;
    for (const TensorId id : part.tensors) sum += model_.tensors[id].elements;
    return sum;
  }
  std::int64_t saved_bytes(const Part& part) const {
    std::int64_t sum = 0;
    for (const SavedTensor& s : part.saved) sum += s.elements * size_of(s.dtype);
    return sum;
  }
  /// Counts the least traffic. Forward reads parameters and input and writes output and saved values. Backward reads
  /// parameters, input, saved values and d output and writes d input and gradients.
  void count_bytes(Part& part) const {
    const std::int64_t parameters = elements_of(part) * size_of(model_.compute);
    const std::int64_t gradients = elements_of(part) * size_of(model_.gradient);
    const std::int64_t stream = model_.residual_elements() * size_of(model_.compute);
    part.forward.bytes = parameters + 2 * stream + saved_bytes(part);
    part.recompute.bytes = part.forward.bytes;
    part.backward.bytes = parameters + gradients + 3 * stream + saved_bytes(part);
  }

  std::int64_t linear_flops(std::int64_t in, std::int64_t out) const {
    return checked_multiply(2 * model_.tokens(), checked_multiply(in, out));
  }

  void embedding() {
    Part& part = start("embed", PartKind::embedding);
    part.backward.scratch_bytes = kernel_needs(model_.device).embedding_backward(model_.tokens());
    const std::int64_t stream = model_.residual_elements() * size_of(model_.compute);
    part.forward.bytes = part.recompute.bytes = 2 * stream;  // the rows that are looked up, not the table
    part.backward.bytes = stream + elements_of(part) * size_of(model_.gradient);
  }

  void attention(int block) {
    Part& part = start(fmt::format("h.{}.attn", block), PartKind::attention, block);
    saves_norm(part);
    saves(part, SavedRole::qkv, "qkv", model_.compute, model_.tokens() * a_.qkv_width());
    if (a_.head_norms) {
      saves(part, SavedRole::projected, "projected", model_.compute,
            model_.tokens() * (a_.query_width() + a_.key_width()));
      saves(part, SavedRole::head_deviation, "head_deviation", DType::fp32, model_.tokens() * (a_.heads + a_.kv_heads));
    }
    saves(part, SavedRole::attention_output, "output", model_.compute, model_.tokens() * a_.query_width());
    saves(part, SavedRole::log_sum_exp, "log_sum_exp", DType::fp32, model_.tokens() * a_.heads);

    const std::int64_t linears = linear_flops(a_.width, a_.qkv_width()) + linear_flops(a_.query_width(), a_.width);
    const std::int64_t matmul =
        checked_multiply(model_.tokens() * (model_.sequence + 1), a_.query_width());  // 2 x half of the square
    part.forward.flops = linears + 2 * matmul;
    part.recompute.flops = part.forward.flops - linear_flops(a_.query_width(), a_.width);
    part.backward.flops = 2 * linears + 5 * matmul;
    count_bytes(part);
    if (a_.positions == PositionKind::rotary) part.constants = {rotary()};
    part.forward.scratch_bytes = part.recompute.scratch_bytes =
        round_up(model_.residual_elements() * size_of(model_.compute), 64);
    part.backward.scratch_bytes = scratch_bytes_of<AttentionBackwardScratch>(model_);
  }

  std::int64_t positions() const { return model_.generates() ? model_.cache : model_.sequence; }

  /// Returns the table of angles, declared by the first part that reads it.
  std::int32_t rotary() {
    if (model_.constants.empty())
      model_.constants.push_back({"rotary", DType::fp32, checked_multiply(positions(), a_.head_width())});
    return 0;
  }

  void mlp(int block) {
    Part& part = start(fmt::format("h.{}.mlp", block), PartKind::mlp, block);
    const bool gated = a_.mlp == MlpKind::swiglu;
    const std::int64_t hidden = model_.tokens() * a_.ffn_width;
    saves_norm(part);
    if (gated) saves(part, SavedRole::gate, "gate", model_.compute, hidden);
    saves(part, SavedRole::up, gated ? "up" : "before_gelu", model_.compute, hidden);
    if (model_.keeps_activated) saves(part, SavedRole::activated, "activated", model_.compute, hidden);
    const std::int64_t up = linear_flops(a_.width, a_.ffn_width) * (gated ? 2 : 1);
    const std::int64_t down = linear_flops(a_.ffn_width, a_.width);
    part.forward.flops = up + down;
    part.recompute.flops = up;  // the output is not read again: the next block's input is kept
    part.backward.flops = 2 * (up + down);
    count_bytes(part);
    part.forward.scratch_bytes = part.recompute.scratch_bytes = scratch_bytes_of<MlpForwardScratch>(model_);
    part.backward.scratch_bytes = scratch_bytes_of<MlpBackwardScratch>(model_);
  }

  void head() {
    Part& part = start("head", PartKind::head);
    if (a_.tied_head) reads(part, TensorId(0), InBackward::read);  // the token table
    const std::int64_t matmul =
        model_.generates() ? 2 * model_.batch * checked_multiply(a_.width, a_.vocab) : linear_flops(a_.width, a_.vocab);
    part.forward.flops = part.recompute.flops = matmul;
    part.backward.flops = 3 * matmul;
    count_bytes(part);
    const ParameterTensor& table = model_.tensors[part.tensors.back()];
    HeadShape shape{model_.tokens(), a_.width,      a_.vocab,        table.padded_elements() / a_.width,
                    model_.compute,  model_.logits, model_.gradient, false};
    const KernelNeeds& needs = kernel_needs(model_.device);
    part.forward.scratch_bytes = part.recompute.scratch_bytes =
        model_.generates() ? scratch_bytes_of<LogitsScratch>(model_) : needs.head(shape);
    shape.training = true;
    part.backward.scratch_bytes = needs.head(shape);
  }

  ModelParts& model_;
  const Architecture& a_;
  TensorId next_{0};  ///< the first tensor that no part has read
};

}  // namespace

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
  model.keeps_activated = choices.keeps_activated;
  model.logits = choices.has_fp32_logits ? DType::fp32 : compute;
  model.tensors = parameter_tensors(architecture);
  // With dropout the gradient of a projection's output is not the residual stream's.
  if (architecture.linear_bias && architecture.dropout == 0)
    model.gradient_sum_rows = kernel_needs(device).gradient_sum_rows(model.tokens(), architecture.width);
  Declaration(model).all_parts();
  return model;
}

ModelParts declare_generation(const Architecture& architecture, std::int64_t batch, std::int64_t rows,
                              std::int64_t positions, DType compute, DeviceKind device) {
  TESSERA_ASSERT(batch > 0 && rows > 0 && rows <= positions && positions <= architecture.context,
                 "generation of {} sequences, {} rows and {} positions in a context of {}", batch, rows, positions,
                 architecture.context);
  checked_multiply(checked_multiply(batch, positions), 16 * checked_add(architecture.vocab, architecture.ffn_width));
  ModelParts model;
  model.architecture = architecture;
  model.architecture.dropout = 0;
  model.batch = batch, model.sequence = rows, model.cache = positions;
  model.compute = compute, model.gradient = compute, model.device = device;
  model.tensors = parameter_tensors(architecture);
  Declaration(model).all_parts();
  return model;
}

std::int64_t ModelParts::gradient_sums_offset() const { return round_up(residual_elements(), 64); }

std::int64_t ModelParts::residual_gradient_elements() const {
  if (gradient_sum_rows == 0) return residual_elements();
  return gradient_sums_offset() + gradient_sum_rows * architecture.width * size_of(DType::fp32) / size_of(compute);
}

std::optional<std::size_t> rotary_constant(const ModelParts& model) {
  for (std::size_t i = 0; i < model.constants.size(); ++i) {
    if (model.constants[i].name == "rotary") return i;
  }
  return std::nullopt;
}

}  // namespace tessera
