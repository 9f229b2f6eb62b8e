#include "tessera/model/architecture.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/model/family.hpp"

namespace tessera {

namespace {

/// Returns the presets of all families, in order.
auto presets() { return all_families() | std::views::transform(&FamilyRules::presets) | std::views::join; }

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
  const FamilyRules& rules = rules_of(a.family);
  if (!rules.has_head_dim && a.head_dim != 0) {
    throw UsageError("model.head_dim = {} ({}'s heads are model.width / model.heads wide): 0", a.head_dim, rules.name);
  }
  if (rules.has_head_dim && a.head_dim == 0)
    throw UsageError("model.head_dim = 0 ({}'s heads have a width of their own): 1 or more", rules.name);
  if (!rules.has_head_dim && a.width % a.heads != 0)
    throw UsageError("model.width = {} (not a multiple of model.heads = {}): a multiple", a.width, a.heads);
  if (!rules.has_own_sizes && a.kv_heads != a.heads) {
    throw UsageError("model.kv_heads = {} ({} has a key/value head per head): {}", a.kv_heads, rules.name, a.heads);
  }
  const bool fits = a.norm == rules.form.norm && a.positions == rules.form.positions && a.mlp == rules.form.mlp &&
                    a.linear_bias == rules.form.linear_bias && (a.qkv_bias || !a.linear_bias) &&
                    a.head_norms == rules.form.head_norms;
  if (!fits) {
    throw UsageError("model.family = {} (its norm, positions, MLP or biases are set otherwise): {}", rules.name,
                     rules.blocks);
  }
  if (a.positions == PositionKind::rotary && a.head_width() % 2 != 0) {
    const std::string where = a.head_dim > 0 ? fmt::format("model.head_dim = {}", a.head_dim)
                                             : fmt::format("model.width = {} over {} heads", a.width, a.heads);
    throw UsageError("{} (rotary positions rotate pairs, a head of {} is odd): an even head width", where,
                     a.head_width());
  }
  if (!rules.has_dropout && a.dropout != 0)
    throw UsageError("model.dropout = {} ({} has no dropout): 0", a.dropout, rules.name);
}

/// Returns ", did you mean NAME?" for a preset's name elsewhere, and nothing for any other.
std::string did_you_mean(std::string_view name) {
  for (const Preset& p : presets()) {
    if (!p.other_name.empty() && name.substr(name.rfind('/') + 1) == p.other_name)
      return fmt::format(", did you mean {}?", p.name);
  }
  return {};
}

}  // namespace

Architecture preset(const std::string& name) {
  for (const FamilyRules& rules : all_families()) {
    const auto p = std::ranges::find(rules.presets, name, &Preset::name);
    if (p == rules.presets.end()) continue;
    Architecture a{p->sizes, rules.form};
    a.tied_head = p->tied_head, a.rope_scaling = p->rope_scaling;
    return a;
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
  for (const ModelSize& size : kModelSizes) {
    const std::int64_t value = a.*size.field;
    if (value < size.least || value > size.largest)
      throw UsageError("model.{} = {} (out of range): 1 to {}", size.option, value, size.largest);
  }
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
