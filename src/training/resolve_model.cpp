#include "tessera/training/resolve_model.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/training/origin.hpp"

namespace tessera {

namespace {

/// Returns a family's norm, positions, MLP and biases, without sizes. Epsilon, rotary base and head tying are as in its
/// presets.
Architecture family_template(const std::string& family) {
  std::string like;
  if (family == name_of(Family::gpt2)) like = "gpt2-124m";
  if (family == name_of(Family::qwen2)) like = "qwen2-0.5b";
  if (family == name_of(Family::llama)) like = "llama-8b";
  if (like.empty()) {
    throw UsageError("model.family = {} (no such family): {}, {}, {}", family, name_of(Family::gpt2),
                     name_of(Family::qwen2), name_of(Family::llama));
  }
  Architecture a = preset(like);
  a.layers = a.heads = a.kv_heads = a.width = a.ffn_width = a.vocab = a.context = 0;
  return a;
}

void replace(std::int64_t& size, std::int64_t given) {
  if (given != 0) size = given;
}

/// Reads the architecture of a Hugging Face folder, or of a checkpoint; without dropout.
Architecture architecture_at(const std::filesystem::path& folder) {
  if (const auto checkpoint = checkpoint_in(folder)) return read_manifest(*checkpoint).architecture;
  if (path_exists(folder / "config.ini") && !path_exists(folder / "config.json"))
    throw UsageError("{}: a run without a complete checkpoint (checkpoint.every = N writes some)", folder.string());
  return read_config(folder);
}

/// Replaces sizes by explicit ones; sizes with a rule follow the rule unless they are given.
void replace_sizes(Architecture& a, const ModelOptions& options, bool rules_apply) {
  replace(a.layers, options.layers);
  replace(a.heads, options.heads);
  replace(a.width, options.width);
  replace(a.vocab, options.vocab);
  replace(a.context, options.context);
  if (rules_apply) a.kv_heads = a.heads, a.ffn_width = checked_multiply(4, a.width);
  replace(a.kv_heads, options.kv_heads);
  replace(a.ffn_width, options.ffn_width);
}

}  // namespace

Architecture resolve_architecture(const ModelOptions& options, const Architecture& parent) {
  Architecture a = parent;
  a.dropout = options.dropout;
  validate(a);
  return a;
}

Architecture resolve_architecture(const ModelOptions& options) {
  if (!options.from.empty()) return resolve_architecture(options, architecture_at(options.from));
  Architecture a;
  if (!options.family.empty()) {
    a = family_template(options.family);
    replace_sizes(a, options, true);
  } else {
    a = preset(options.preset);
    replace_sizes(a, options, a.family == Family::gpt2);
  }
  a.dropout = options.dropout;
  validate(a);
  return a;
}

}  // namespace tessera
