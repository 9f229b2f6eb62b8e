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

/// RMS norm, rotary positions, a gated MLP, and no biases: what is common to all but GPT-2.
constexpr ModelForm rotary_form(Family family, double norm_epsilon, double rope_theta) {
  ModelForm form{.family = family, .norm = NormKind::rms_norm, .positions = PositionKind::rotary,
                 .mlp = MlpKind::swiglu, .linear_bias = false, .qkv_bias = false};
  form.norm_epsilon = norm_epsilon, form.rope_theta = rope_theta;
  return form;
}
constexpr ModelForm qwen2_form() {
  ModelForm form = rotary_form(Family::qwen2, 1e-6, 1e6);
  form.qkv_bias = true;
  return form;
}
constexpr ModelForm llama_form() {
  ModelForm form = rotary_form(Family::llama, 1e-5, 5e5);
  form.tied_head = false;
  return form;
}
constexpr ModelForm qwen3_form() {
  ModelForm form = rotary_form(Family::qwen3, 1e-6, 1e6);
  form.head_norms = true;
  return form;
}

constexpr ModelForm mistral_form() {
  ModelForm form = rotary_form(Family::mistral, 1e-5, 1e4);
  form.tied_head = false, form.window = 4096;
  return form;
}

constexpr std::string_view kRotaryBlocks =
    "RMS norm, rotary positions, SwiGLU, and biases only where config.json can name them";

constexpr FamilyRules kTable[] = {
    {.name = "gpt2", .form = {}, .blocks = "layer norm, learned positions, GELU and biases everywhere",
     .has_own_sizes = false, .head_dim = HeadDim::never, .has_dropout = true,
     .weight_layout = WeightLayout::in_out, .has_small_projections = true, .prefix = "transformer.", .block = "h.{}.",
     .presets = kGpt2Presets, .modules = kGpt2Modules},
    {.name = "qwen2", .form = qwen2_form(), .blocks = kRotaryBlocks, .presets = kQwen2Presets,
     .modules = kRotaryModules},
    {.name = "llama", .form = llama_form(), .blocks = kRotaryBlocks, .presets = kLlamaPresets,
     .modules = kRotaryModules},
    {.name = "qwen3", .form = qwen3_form(),
     .blocks = "RMS norm, also of each head's query and key, rotary positions and SwiGLU",
     .head_dim = HeadDim::always, .presets = kQwen3Presets, .modules = kRotaryModules},
    {.name = "mistral", .form = mistral_form(), .blocks = kRotaryBlocks, .presets = kMistralPresets,
     .modules = kRotaryModules},
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
