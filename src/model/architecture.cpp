#include "tessera/model/architecture.hpp"

#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <string_view>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

Architecture gpt2(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t vocab,
                  std::int64_t context) {
  Architecture a;
  a.family = Family::gpt2;
  a.layers = layers, a.heads = heads, a.kv_heads = heads, a.width = width, a.ffn_width = 4 * width;
  a.vocab = vocab, a.context = context;
  return a;
}

struct LlamaShape {
  std::int64_t layers, heads, kv_heads, width, ffn_width, vocab, context;
  double rope_theta, norm_epsilon;
  bool tied_head;
  RopeScaling rope_scaling = {};
};

Architecture llama_like(Family family, const LlamaShape& shape) {
  Architecture a;
  a.family = family;
  a.layers = shape.layers, a.heads = shape.heads, a.kv_heads = shape.kv_heads;
  a.width = shape.width, a.ffn_width = shape.ffn_width, a.vocab = shape.vocab, a.context = shape.context;
  a.norm = NormKind::rms_norm, a.positions = PositionKind::rotary, a.mlp = MlpKind::swiglu;
  a.linear_bias = false, a.qkv_bias = family == Family::qwen2;
  a.tied_head = shape.tied_head;
  a.norm_epsilon = shape.norm_epsilon, a.rope_theta = shape.rope_theta;
  a.rope_scaling = shape.rope_scaling;
  return a;
}

struct Preset {
  const char* name;
  Architecture architecture;
};

/// Shapes as in the models' config.json on Hugging Face; nano is Tessera's.
std::array<Preset, 9> presets() {
  return {{
      {"nano", gpt2(4, 4, 128, 256, 256)},
      {"gpt2-124m", gpt2(12, 12, 768, 50257, 1024)},
      {"gpt2-350m", gpt2(24, 16, 1024, 50257, 1024)},
      {"gpt2-774m", gpt2(36, 20, 1280, 50257, 1024)},
      {"gpt2-1558m", gpt2(48, 25, 1600, 50257, 1024)},
      {"qwen2-0.5b", llama_like(Family::qwen2, {24, 14, 2, 896, 4864, 151936, 131072, 1e6, 1e-6, true})},
      {"qwen2-1.5b", llama_like(Family::qwen2, {28, 12, 2, 1536, 8960, 151936, 131072, 1e6, 1e-6, true})},
      {"llama-1b",
       llama_like(Family::llama, {16, 32, 8, 2048, 8192, 128256, 131072, 5e5, 1e-5, true, {8192, 32, 1, 4}})},
      {"llama-8b", llama_like(Family::llama, {32, 32, 8, 4096, 14336, 128256, 8192, 5e5, 1e-5, false})},
  }};
}

void require_positive(const char* option, std::int64_t value, std::int64_t largest) {
  if (value < 1 || value > largest) throw UsageError("model.{} = {} (out of range): 1 to {}", option, value, largest);
}

void validate_scaling(const RopeScaling& s) {
  const bool sound = s.original_context > 0 && s.factor >= 1 && std::isfinite(s.factor) && s.low_freq_factor > 0 &&
                     s.high_freq_factor > s.low_freq_factor && std::isfinite(s.high_freq_factor);
  if (sound) return;
  throw UsageError(
      "rope scaling with factor {}, low_freq_factor {}, high_freq_factor {}, original context {}: a factor of at least "
      "1, 0 < low_freq_factor < high_freq_factor, a context of at least 1",
      s.factor, s.low_freq_factor, s.high_freq_factor, s.original_context);
}

/// Checks the options that a family fixes: its Hugging Face form cannot express anything else.
void validate_family(const Architecture& a) {
  if (a.family == Family::gpt2) {
    if (a.kv_heads != a.heads) {
      throw UsageError("model.kv_heads = {} (gpt2 has a key/value head per head): {}", a.kv_heads, a.heads);
    }
    const bool fits = a.norm == NormKind::layer_norm && a.positions == PositionKind::learned &&
                      a.mlp == MlpKind::gelu && a.linear_bias && a.qkv_bias;
    if (!fits) {
      throw UsageError(
          "model.family = gpt2 (its norm, positions, MLP or biases are set otherwise): layer norm, learned "
          "positions, GELU and biases everywhere");
    }
    return;
  }
  const bool fits =
      a.norm == NormKind::rms_norm && a.positions == PositionKind::rotary && a.mlp == MlpKind::swiglu && !a.linear_bias;
  if (!fits) {
    throw UsageError(
        "model.family = {} (its norm, positions, MLP or biases are set otherwise): RMS norm, rotary positions, "
        "SwiGLU, no biases but on query, key and value",
        name_of(a.family));
  }
  if (a.head_width() % 2 != 0) {
    throw UsageError(
        "model.width = {} over {} heads (rotary positions rotate pairs, a head of {} is odd): an even head width",
        a.width, a.heads, a.head_width());
  }
  if (a.dropout != 0) throw UsageError("model.dropout = {} ({} has no dropout): 0", a.dropout, name_of(a.family));
}

/// Names in other programs, without their publisher.
constexpr std::array<std::array<std::string_view, 2>, 7> kOtherNames = {{{"gpt2", "gpt2-124m"},
                                                                         {"gpt2-medium", "gpt2-350m"},
                                                                         {"gpt2-large", "gpt2-774m"},
                                                                         {"gpt2-xl", "gpt2-1558m"},
                                                                         {"qwen2", "qwen2-0.5b"},
                                                                         {"llama", "llama-1b"},
                                                                         {"llama3", "llama-8b"}}};

/// Returns ", did you mean NAME?" for a preset's name elsewhere, and nothing for any other.
std::string did_you_mean(std::string_view name) {
  for (const auto& [other, known] : kOtherNames) {
    if (name.substr(name.rfind('/') + 1) == other) return fmt::format(", did you mean {}?", known);
  }
  return {};
}

}  // namespace

std::string name_of(Family family) {
  constexpr std::array<const char*, 3> names{"gpt2", "qwen2", "llama"};
  return names[static_cast<std::size_t>(family)];
}

Architecture preset(const std::string& name) {
  for (const Preset& p : presets()) {
    if (name == p.name) return p.architecture;
  }
  throw UsageError("model.preset = {} (no such preset{}): {}", name, did_you_mean(name),
                   fmt::join(preset_names(), ", "));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.emplace_back(p.name);
  return names;
}

void validate(const Architecture& a) {
  constexpr std::int64_t kManyTokens = std::int64_t{1} << 31;
  require_positive("layers", a.layers, 4096);
  require_positive("heads", a.heads, 1024);
  require_positive("kv_heads", a.kv_heads, a.heads);
  require_positive("width", a.width, 65536);
  require_positive("ffn_width", a.ffn_width, 1 << 20);
  require_positive("vocab", a.vocab, kManyTokens - 1);
  require_positive("context", a.context, 1 << 24);
  if (a.width % a.heads != 0)
    throw UsageError("model.width = {} (not a multiple of model.heads = {}): a multiple", a.width, a.heads);
  if (a.heads % a.kv_heads != 0) {
    throw UsageError("model.kv_heads = {} (does not divide model.heads = {}): a divisor", a.kv_heads, a.heads);
  }
  if (a.head_width() > 256) {
    throw UsageError("model.width = {} over {} heads (a head of {}): heads of at most 256", a.width, a.heads,
                     a.head_width());
  }
  if (!(a.dropout >= 0 && a.dropout < 1))
    throw UsageError("model.dropout = {} (out of range): 0 up to, not including, 1", a.dropout);
  if (!(a.norm_epsilon > 0 && std::isfinite(a.norm_epsilon))) {
    throw UsageError("norm epsilon = {} (must keep the norm finite): above 0", a.norm_epsilon);
  }
  if (!(a.rope_theta > 0 && std::isfinite(a.rope_theta))) throw UsageError("rope theta = {}: above 0", a.rope_theta);
  if (a.rope_scaling != RopeScaling{}) validate_scaling(a.rope_scaling);
  validate_family(a);
}

}  // namespace tessera
