#include "tessera/model/family.hpp"

#include <fmt/ranges.h>

#include <ranges>

namespace tessera {

namespace {

using Number = ConfigKey::Number;
using Size = ConfigKey::Size;
using Text = ConfigKey::Text;
using Truth = ConfigKey::Truth;
using Use = ConfigKey::Use;
using AllOfList = ConfigKey::AllOfList;
using A = Architecture;

// clang-format off

constexpr ModuleNames kGpt2Modules = {
    .token_table = "wte", .position_table = "wpe",
    .attention_norm = "ln_1", .qkv = "attn.c_attn", .attention_output = "attn.c_proj",
    .mlp_norm = "ln_2", .up = "mlp.c_fc", .down = "mlp.c_proj",
    .final_norm = "ln_f",
};

/// Of Qwen2, Llama and Qwen3.
constexpr ModuleNames kRotaryModules = {
    .token_table = "embed_tokens",
    .attention_norm = "input_layernorm",
    .query = "self_attn.q_proj", .key = "self_attn.k_proj", .value = "self_attn.v_proj",
    .query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm", .attention_output = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm", .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj",
    .final_norm = "norm",
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
     .weight_layout = WeightLayout::in_out, .has_small_projections = true, .prefix = "transformer.", .block = "h.{}.",
     .transformers_class = "GPT2LMHeadModel",
     .class_prefixes = {"GPT2"},
     .presets = kGpt2Presets, .modules = kGpt2Modules, .keys = {kGpt2Keys}},
    {.name = "qwen2",
     .form = {.family = Family::qwen2, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = true, .tied_head = true,
              .norm_epsilon = 1e-6, .rope_theta = 1e6},
     .blocks = kRotaryBlocks,
     .has_own_sizes = true, .head_dim = HeadDim::optional, .has_dropout = false,
     .weight_layout = WeightLayout::out_in, .has_small_projections = false, .prefix = "model.", .block = "layers.{}.",
     .transformers_class = "Qwen2ForCausalLM",
     .class_prefixes = {"Qwen2For", "Qwen2Model"},
     .presets = kQwen2Presets, .modules = kRotaryModules, .keys = {kRotaryKeys, kQwen2Keys}},
    {.name = "llama",
     .form = {.family = Family::llama, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .tied_head = false,
              .norm_epsilon = 1e-5, .rope_theta = 5e5},
     .blocks = kRotaryBlocks,
     .has_own_sizes = true, .head_dim = HeadDim::optional, .has_dropout = false,
     .weight_layout = WeightLayout::out_in, .has_small_projections = false, .prefix = "model.", .block = "layers.{}.",
     .transformers_class = "LlamaForCausalLM",
     .class_prefixes = {"Llama"},
     .presets = kLlamaPresets, .modules = kRotaryModules, .keys = {kLlamaKeys, kRotaryKeys}},
    {.name = "qwen3",
     .form = {.family = Family::qwen3, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .head_norms = true, .tied_head = true,
              .norm_epsilon = 1e-6, .rope_theta = 1e6},
     .blocks = "RMS norm, also of each head's query and key, rotary positions and SwiGLU",
     .has_own_sizes = true, .head_dim = HeadDim::always, .has_dropout = false,
     .weight_layout = WeightLayout::out_in, .has_small_projections = false, .prefix = "model.", .block = "layers.{}.",
     .transformers_class = "Qwen3ForCausalLM",
     .class_prefixes = {"Qwen3For", "Qwen3Model"},
     .presets = kQwen3Presets, .modules = kRotaryModules, .keys = {kRotaryKeys, kQwen3Keys}},
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

}  // namespace tessera
