#include "tessera/model/family.hpp"

#include <fmt/ranges.h>

#include <ranges>

namespace tessera {

namespace {

// clang-format off

constexpr ModuleNames kGpt2Modules = {
    .token_table = "wte", .position_table = "wpe",
    .attention_norm = "ln_1", .qkv = "attn.c_attn", .attention_output = "attn.c_proj",
    .mlp_norm = "ln_2", .up = "mlp.c_fc", .down = "mlp.c_proj",
    .final_norm = "ln_f",
};

/// Of the families that rotate positions.
constexpr ModuleNames kRotaryModules = {
    .token_table = "embed_tokens",
    .attention_norm = "input_layernorm",
    .query = "self_attn.q_proj", .key = "self_attn.k_proj", .value = "self_attn.v_proj",
    .query_norm = "self_attn.q_norm", .key_norm = "self_attn.k_norm", .attention_output = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm", .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj",
    .final_norm = "norm",
};

constexpr ModuleNames kGemma3Modules = [] {
  ModuleNames names = kRotaryModules;
  names.attention_output_norm = names.mlp_norm, names.mlp_norm = "pre_feedforward_layernorm";
  names.mlp_output_norm = "post_feedforward_layernorm";
  return names;
}();

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
constexpr Preset kMistralPresets[] = {
    {"mistral-7b", "Mistral-7B-v0.1", {32, 32, 8, 0, 4096, 14336, 32000, 32768}, false},
};
constexpr Preset kGemma3Presets[] = {
    {"gemma3-270m", "gemma-3-270m", {18, 4, 1, 256, 640,  2048, 262144, 32768}},
    {"gemma3-1b",   "gemma-3-1b",   {26, 4, 1, 256, 1152, 6912, 262144, 32768}},
};

constexpr auto kRotaryBlocks = "RMS norm, rotary positions, SwiGLU, and biases only where config.json can name them";

constexpr FamilyRules kTable[] = {
    {.name = "gpt2", .form = {}, .blocks = "layer norm, learned positions, GELU and biases everywhere",
     .has_own_sizes = false, .head_dim = HeadDim::never, .has_dropout = true,
     .weight_layout = WeightLayout::in_out, .has_small_projections = true, .prefix = "transformer.", .block = "h.{}.",
     .presets = kGpt2Presets, .modules = kGpt2Modules},
    {.name = "qwen2",
     .form = {.family = Family::qwen2, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .norm_epsilon = 1e-6, .rope_theta = 1e6},
     .blocks = kRotaryBlocks, .presets = kQwen2Presets, .modules = kRotaryModules},
    {.name = "llama",
     .form = {.family = Family::llama, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .tied_head = false, .rope_theta = 5e5},
     .blocks = kRotaryBlocks, .presets = kLlamaPresets, .modules = kRotaryModules},
    {.name = "qwen3",
     .form = {.family = Family::qwen3, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .head_norms = true,
              .norm_epsilon = 1e-6, .rope_theta = 1e6},
     .blocks = "RMS norm, also of each head's query and key, rotary positions and SwiGLU",
     .head_dim = HeadDim::always, .presets = kQwen3Presets, .modules = kRotaryModules},
    {.name = "mistral",
     .form = {.family = Family::mistral, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false, .tied_head = false, .window = 4096},
     .blocks = kRotaryBlocks, .presets = kMistralPresets, .modules = kRotaryModules},
    {.name = "gemma3",
     .form = {.family = Family::gemma3, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
              .mlp = MlpKind::geglu, .linear_bias = false, .qkv_bias = false, .head_norms = true,
              .output_norms = true, .scaled_embedding = true, .gain_offset = 1, .norm_epsilon = 1e-6,
              .rope_theta = 1e6, .rope_local_theta = 1e4, .window = 512, .full_every = 6},
     .blocks = "RMS norm, also of each head's query and key and behind attention and MLP, rotary positions and GeGLU",
     .head_dim = HeadDim::always, .presets = kGemma3Presets, .modules = kGemma3Modules},
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
