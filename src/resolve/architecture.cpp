#include "tessera/resolve/architecture.hpp"

#include <algorithm>

#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/model/family.hpp"
#include "tessera/resolve/run_checkpoints.hpp"

namespace tessera {

namespace {

/// Returns a family's norm, positions, MLP and biases.
const ModelForm& form_of(const std::string& family) {
  const auto rules = std::ranges::find(all_families(), family, &FamilyRules::name);
  if (rules != all_families().end()) return rules->form;
  throw refusal("model.family = {} is not a family", family).use("one of {}", names_of_families());
}

/// Reads the architecture of a Hugging Face folder, or of a checkpoint; without dropout.
Architecture architecture_at(const std::filesystem::path& folder) {
  if (const auto checkpoint = checkpoint_in(folder)) return read_manifest(*checkpoint).architecture;
  if (path_exists(folder / "config.ini") && !path_exists(folder / "config.json"))
    throw refusal("{} is a run without a complete checkpoint", folder.string())
        .hint("Set checkpoint.every = N to have some");
  return read_config(folder);
}

/// Replaces sizes with explicit ones; sizes that have a rule follow the rule unless they are given.
void replace_sizes(Architecture& a, const ModelOptions& options, bool rules_apply) {
  for (const ModelSize& size : kModelSizes) {
    if (options.*size.field != 0 || (rules_apply && size.rule != nullptr)) a.*size.field = options.*size.field;
  }
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  const HeadDim rule = rules_of(a.family).head_dim;
  if (rule == HeadDim::optional && a.head_dim * a.heads == a.width) a.head_dim = 0;  // as checkpoints are read
  if (a.head_dim == 0 && rule == HeadDim::always) {
    if (a.heads < 1 || a.width % a.heads != 0)
      throw refuse("model.head_dim", 0)
          .because("model.width = {} is not a multiple of model.heads = {}", a.width, a.heads)
          .hint("Give the width of a head");
    a.head_dim = a.width / a.heads;
  }
  if (a.ffn_width == 0) a.ffn_width = checked_multiply(4, a.width);
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
    a = {{}, form_of(options.family)};
    replace_sizes(a, options, true);
  } else {
    a = preset(options.preset);
    replace_sizes(a, options, !rules_of(a.family).has_own_sizes);
  }
  a.dropout = options.dropout;
  validate(a);
  return a;
}

}  // namespace tessera
