#include "tessera/model/family.hpp"

#include <fmt/ranges.h>

#include <ranges>

namespace tessera {

namespace {

using enum Role;
using enum Initialization;
using enum InBackward;
using enum Length;
using enum TensorRow::In;
using Number = ConfigKey::Number;
using Size = ConfigKey::Size;
using Text = ConfigKey::Text;
using Truth = ConfigKey::Truth;
using Use = ConfigKey::Use;
using AllOfList = ConfigKey::AllOfList;
using A = Architecture;

// clang-format off

/// Conv1D weights are [in, out].
constexpr TensorRow kGpt2Tensors[] = {
    {token_table,         "transformer.wte.weight",              normal,   not_read, vocab,   width},
    {position_table,      "transformer.wpe.weight",              normal,   not_read, context, width},
    {attention_norm_gain, "transformer.h.{}.ln_1.weight",        one,      read,     width},
    {attention_norm_bias, "transformer.h.{}.ln_1.bias",          zero,     read,     width},
    {qkv_weight,          "transformer.h.{}.attn.c_attn.weight", normal,   read,     width,   qkv},
    {qkv_bias,            "transformer.h.{}.attn.c_attn.bias",   zero,     not_read, qkv},
    {output_weight,       "transformer.h.{}.attn.c_proj.weight", residual, read,     query,   width},
    {output_bias,         "transformer.h.{}.attn.c_proj.bias",   zero,     not_read, width},
    {mlp_norm_gain,       "transformer.h.{}.ln_2.weight",        one,      read,     width},
    {mlp_norm_bias,       "transformer.h.{}.ln_2.bias",          zero,     read,     width},
    {up_weight,           "transformer.h.{}.mlp.c_fc.weight",    normal,   read,     width,   ffn},
    {up_bias,             "transformer.h.{}.mlp.c_fc.bias",      zero,     not_read, ffn},
    {down_weight,         "transformer.h.{}.mlp.c_proj.weight",  residual, read,     ffn,     width},
    {down_bias,           "transformer.h.{}.mlp.c_proj.bias",    zero,     not_read, width},
    {final_norm_gain,     "transformer.ln_f.weight",             one,      read,     width},
    {final_norm_bias,     "transformer.ln_f.bias",               zero,     read,     width},
    {head_table,          kHeadName,                             normal,   read,     vocab,   width, untied},
};

/// Of Qwen2, Llama and Qwen3; linear weights are [out, in].
constexpr TensorRow kRotaryTensors[] = {
    {token_table,         "model.embed_tokens.weight",                       normal, not_read, vocab, width},
    {attention_norm_gain, "model.layers.{}.input_layernorm.weight",          one,    read,     width},
    {query_weight,        "model.layers.{}.self_attn.q_proj.weight",         normal, read,     query, width},
    {query_bias,          "model.layers.{}.self_attn.q_proj.bias",           zero,   not_read, query, none,  biased},
    {key_weight,          "model.layers.{}.self_attn.k_proj.weight",         normal, read,     key,   width},
    {key_bias,            "model.layers.{}.self_attn.k_proj.bias",           zero,   not_read, key,   none,  biased},
    {value_weight,        "model.layers.{}.self_attn.v_proj.weight",         normal, read,     key,   width},
    {value_bias,          "model.layers.{}.self_attn.v_proj.bias",           zero,   not_read, key,   none,  biased},
    {query_norm_gain,     "model.layers.{}.self_attn.q_norm.weight",         one,    read,     head,  none,  normed},
    {key_norm_gain,       "model.layers.{}.self_attn.k_norm.weight",         one,    read,     head,  none,  normed},
    {output_weight,       "model.layers.{}.self_attn.o_proj.weight",         normal, read,     width, query},
    {output_bias,         "model.layers.{}.self_attn.o_proj.bias",           zero,   not_read, width, none, out_biased},
    {mlp_norm_gain,       "model.layers.{}.post_attention_layernorm.weight", one,    read,     width},
    {gate_weight,         "model.layers.{}.mlp.gate_proj.weight",            normal, read,     ffn,   width},
    {gate_bias,           "model.layers.{}.mlp.gate_proj.bias",              zero,   not_read, ffn,   none, mlp_biased},
    {up_weight,           "model.layers.{}.mlp.up_proj.weight",              normal, read,     ffn,   width},
    {up_bias,             "model.layers.{}.mlp.up_proj.bias",                zero,   not_read, ffn,   none, mlp_biased},
    {down_weight,         "model.layers.{}.mlp.down_proj.weight",            normal, read,     width, ffn},
    {down_bias,           "model.layers.{}.mlp.down_proj.bias",              zero,   not_read, width, none, mlp_biased},
    {final_norm_gain,     "model.norm.weight",                               one,    read,     width},
    {head_table,          kHeadName,                                         normal, read,     vocab, width, untied},
};

constexpr ConfigKey kGpt2Keys[] = {
    {"activation_function", Text{"gelu_new", "gelu_pytorch_tanh"}},
    {"scale_attn_weights", true, Use::read}, {"scale_attn_by_inverse_layer_idx", false, Use::read},
    {"reorder_and_upcast_attn", false, Use::read}, {"add_cross_attention", false, Use::read},
    {"attn_pdrop", Number{&A::dropout}, Use::written}, {"embd_pdrop", Number{&A::dropout}, Use::written},
    {"resid_pdrop", Number{&A::dropout}, Use::written},
    {"layer_norm_epsilon", Number{&A::norm_epsilon, 1e-5}},
    {"n_ctx", Size{&A::context}}, {"n_embd", Size{&A::width}}, {"n_head", Size{&A::heads}},
    {"n_inner", Size{&A::ffn_width}}, {"n_layer", Size{&A::layers}}, {"n_positions", Size{&A::context}},
    {"tie_word_embeddings", Truth{&A::tied_head, true}}, {"vocab_size", Size{&A::vocab}},
};

/// Of Qwen2, Llama and Qwen3.
constexpr ConfigKey kRotaryKeys[] = {
    {"attention_dropout", Number{&A::dropout}, Use::written}, {"hidden_act", Text{"silu"}},
    {"hidden_size", Size{&A::width}}, {"intermediate_size", Size{&A::ffn_width}},
    {"max_position_embeddings", Size{&A::context}}, {"num_attention_heads", Size{&A::heads}},
    {"num_hidden_layers", Size{&A::layers}}, {"num_key_value_heads", Size{&A::kv_heads}},
    {"rms_norm_eps", Number{&A::norm_epsilon, 1e-6}}, {"rope_theta", Number{&A::rope_theta, 10000.0}},
    {"tie_word_embeddings", Truth{&A::tied_head, false}}, {"vocab_size", Size{&A::vocab}},
    {"layer_types", AllOfList{"full_attention"}, Use::read},
};
constexpr ConfigKey kQwen2Keys[] = {
    {"head_dim", Size{&A::head_dim}, Use::read}, {"use_sliding_window", false, Use::written},
};
constexpr ConfigKey kQwen3Keys[] = {
    {"attention_bias", Truth{&A::attention_bias, false}}, {"head_dim", Size{&A::head_dim}},
    {"use_sliding_window", false, Use::written},
};
constexpr ConfigKey kLlamaKeys[] = {
    {"attention_bias", Truth{&A::attention_bias, false}, Use::read}, {"head_dim", Size{&A::head_dim}, Use::read},
    {"mlp_bias", Truth{&A::mlp_bias, false}, Use::read},
};

// Shapes as in the models' config.json on Hugging Face; nano is Tessera's.
constexpr Preset kGpt2Presets[] = {
    {"nano",       "",            {4,  4,  4,  0, 128,  512,  256,   256}},
    {"gpt2-124m",  "gpt2",        {12, 12, 12, 0, 768,  3072, 50257, 1024}},
    {"gpt2-350m",  "gpt2-medium", {24, 16, 16, 0, 1024, 4096, 50257, 1024}},
    {"gpt2-774m",  "gpt2-large",  {36, 20, 20, 0, 1280, 5120, 50257, 1024}},
    {"gpt2-1558m", "gpt2-xl",     {48, 25, 25, 0, 1600, 6400, 50257, 1024}},
};
constexpr Preset kQwen2Presets[] = {
    {"qwen2-0.5b", "qwen2", {24, 14, 2, 0, 896,  4864, 151936, 131072}},
    {"qwen2-1.5b", "",      {28, 12, 2, 0, 1536, 8960, 151936, 131072}},
};
constexpr Preset kLlamaPresets[] = {
    {"llama-1b", "llama",  {16, 32, 8, 0, 2048, 8192,  128256, 131072}, true, {8192, 32, 1, 4}},
    {"llama-8b", "llama3", {32, 32, 8, 0, 4096, 14336, 128256, 8192},   false},
};

constexpr Preset kQwen3Presets[] = {
    {"qwen3-0.6b", "qwen3", {28, 16, 8, 128, 1024, 3072,  151936, 40960}},
    {"qwen3-1.7b", "",      {28, 16, 8, 128, 2048, 6144,  151936, 40960}},
    {"qwen3-4b",   "",      {36, 32, 8, 128, 2560, 9728,  151936, 40960}},
    {"qwen3-8b",   "",      {36, 32, 8, 128, 4096, 12288, 151936, 40960}, false},
};

constexpr std::string_view kRotaryBlocks =
    "RMS norm, rotary positions, SwiGLU, and biases only where config.json can name them";

constexpr FamilyRules kTable[] = {
    {.name = "gpt2",
     .form = {.family = Family::gpt2, .norm = NormKind::layer_norm, .positions = PositionKind::learned,
              .mlp = MlpKind::gelu, .linear_bias = true, .qkv_bias = true, .tied_head = true, .norm_epsilon = 1e-5},
     .blocks = "layer norm, learned positions, GELU and biases everywhere",
     .has_own_sizes = false, .head_dim = HeadDim::never, .has_dropout = true,
     .weight_layout = WeightLayout::in_out, .prefix = "transformer.", .transformers_class = "GPT2LMHeadModel",
     .class_prefixes = {"GPT2"},
     .presets = kGpt2Presets, .tensors = kGpt2Tensors, .keys = {kGpt2Keys}},
    {.name = "qwen2",
     .form = {.family = Family::qwen2, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = true, .tied_head = true,
              .norm_epsilon = 1e-6, .rope_theta = 1e6},
     .blocks = kRotaryBlocks,
     .has_own_sizes = true, .head_dim = HeadDim::optional, .has_dropout = false,
     .weight_layout = WeightLayout::out_in, .prefix = "model.", .transformers_class = "Qwen2ForCausalLM",
     .class_prefixes = {"Qwen2For", "Qwen2Model"},
     .presets = kQwen2Presets, .tensors = kRotaryTensors, .keys = {kRotaryKeys, kQwen2Keys}},
    {.name = "llama",
     .form = {.family = Family::llama, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .tied_head = false,
              .norm_epsilon = 1e-5, .rope_theta = 5e5},
     .blocks = kRotaryBlocks,
     .has_own_sizes = true, .head_dim = HeadDim::optional, .has_dropout = false,
     .weight_layout = WeightLayout::out_in, .prefix = "model.", .transformers_class = "LlamaForCausalLM",
     .class_prefixes = {"Llama"},
     .presets = kLlamaPresets, .tensors = kRotaryTensors, .keys = {kLlamaKeys, kRotaryKeys}},
    {.name = "qwen3",
     .form = {.family = Family::qwen3, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .head_norms = true, .tied_head = true,
              .norm_epsilon = 1e-6, .rope_theta = 1e6},
     .blocks = "RMS norm, also of each head's query and key, rotary positions and SwiGLU",
     .has_own_sizes = true, .head_dim = HeadDim::always, .has_dropout = false,
     .weight_layout = WeightLayout::out_in, .prefix = "model.", .transformers_class = "Qwen3ForCausalLM",
     .class_prefixes = {"Qwen3For", "Qwen3Model"},
     .presets = kQwen3Presets, .tensors = kRotaryTensors, .keys = {kRotaryKeys, kQwen3Keys}},
};

// clang-format on

}  // namespace

std::span<const FamilyRules> all_families() { return kTable; }

const FamilyRules& rules_of(Family family) { return kTable[static_cast<std::size_t>(family)]; }

std::string name_of(Family family) { return std::string(rules_of(family).name); }

std::string names_of_families() {
  return fmt::format("{}", fmt::join(kTable | std::views::transform(&FamilyRules::name), ", "));
}

std::string_view without_prefix(std::string_view name) {
  for (const FamilyRules& rules : kTable) {
    if (name.starts_with(rules.prefix)) return name.substr(rules.prefix.size());
  }
  return name;
}

Role followed_by(Role role) {
  const bool follows = role >= key_weight && role <= value_bias;
  return follows ? static_cast<Role>(static_cast<int>(role) - 2) : role;
}

PartKind part_of(Role role) {
  if (role <= Role::position_table) return PartKind::embedding;
  if (role <= Role::output_bias) return PartKind::attention;
  return role <= Role::down_bias ? PartKind::mlp : PartKind::head;
}

bool TensorRow::is_in(const Architecture& a) const {
  // In the order of In.
  const bool has_qkv_bias = a.qkv_bias || a.attention_bias;
  const bool has[] = {true, has_qkv_bias, a.head_norms, !a.tied_head, a.attention_bias, a.mlp_bias};
  return has[static_cast<std::size_t>(models)];
}

std::int64_t size_of(Length length, const Architecture& a) {
  // In the order of Length.
  const std::int64_t sizes[] = {
      1, a.vocab, a.context, a.width, a.head_width(), a.query_width(), a.key_width(), a.qkv_width(), a.ffn_width};
  return sizes[static_cast<std::size_t>(length)];
}

}  // namespace tessera
