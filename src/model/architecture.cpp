#include "tessera/model/architecture.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string_view>

#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/model/family.hpp"

namespace tessera {

namespace {

/// Returns the presets of all families, in order.
auto presets() { return all_families() | std::views::transform(&FamilyRules::presets) | std::views::join; }

void validate_scaling(const RopeScaling& s) {
  const bool sound = s.original_context >= 0 && s.factor >= 1 && std::isfinite(s.factor) && s.low_freq_factor > 0 &&
                     s.high_freq_factor > s.low_freq_factor && std::isfinite(s.high_freq_factor);
  if (sound) return;
  throw refusal(
      "rope scaling with factor {}, low_freq_factor {}, high_freq_factor {}, original context {} does not work",
      s.factor, s.low_freq_factor, s.high_freq_factor, s.original_context)
      .use(
          "a factor of at least 1, 0 < low_freq_factor < high_freq_factor, and a context of at least 1, or 0 for "
          "linear scaling");
}

/// Checks the options that a family fixes: its Hugging Face form cannot express anything else.
void validate_family(const Architecture& a) {
  const FamilyRules& rules = rules_of(a.family);
  if (rules.head_dim == HeadDim::never && a.head_dim != 0) {
    throw refuse("model.head_dim", a.head_dim)
        .because("{}'s heads are model.width / model.heads wide", rules.name)
        .use("0");
  }
  if (rules.head_dim == HeadDim::always && a.head_dim == 0)
    throw refuse("model.head_dim", 0).because("{}'s heads have their own width", rules.name).use("1 or more");
  if (a.head_dim == 0 && a.width % a.heads != 0)
    throw refusal("model.width = {} is not a multiple of model.heads = {}", a.width, a.heads).use("a multiple of it");
  if (!rules.has_own_sizes && a.kv_heads != a.heads) {
    throw refuse("model.kv_heads", a.kv_heads)
        .because("{} has a key/value head per head", rules.name)
        .use("{}", a.heads);
  }
  const bool fits = a.norm == rules.form.norm && a.positions == rules.form.positions && a.mlp == rules.form.mlp &&
                    a.linear_bias == rules.form.linear_bias && (a.qkv_bias || !a.linear_bias) &&
                    a.head_norms == rules.form.head_norms;
  if (!fits) {
    throw refuse("model.family", rules.name)
        .because("its norm, positions, MLP or biases are set otherwise")
        .use("{}", rules.blocks);
  }
  if (a.positions == PositionKind::rotary && a.head_width() % 2 != 0) {
    const std::string where = a.head_dim > 0 ? fmt::format("model.head_dim = {}", a.head_dim)
                                             : fmt::format("model.width = {} over {} heads", a.width, a.heads);
    throw refusal("{} gives heads of {}, but rotary positions rotate pairs", where, a.head_width())
        .use("an even head width");
  }
  if (!rules.has_dropout && a.dropout != 0)
    throw refuse("model.dropout", a.dropout).because("{} has no dropout", rules.name).use("0");
}

/// Returns "Did you mean NAME? " for a preset's name elsewhere, and nothing for any other.
std::string did_you_mean(std::string_view name) {
  for (const Preset& p : presets()) {
    if (!p.other_name.empty() && name.substr(name.rfind('/') + 1) == p.other_name)
      return fmt::format("Did you mean {}? ", p.name);
  }
  return {};
}

}  // namespace

std::string name_of(MlpKind mlp) {
  constexpr const char* names[] = {"GELU", "SwiGLU", "GeGLU"};
  return names[static_cast<std::size_t>(mlp)];
}

double Adapters::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (is_rank_stabilized ? std::sqrt(r) : r);
}

std::string describe(const Adapters& a) {
  return fmt::format("rank {}, alpha {}{}{}, on {}", a.rank, a.alpha, a.is_rank_stabilized ? " (rank-stabilized)" : "",
                     a.dropout > 0 ? fmt::format(", dropout {}", a.dropout) : "", fmt::join(a.targets, ", "));
}

std::string describe(const Architecture& a) {
  const auto has_window = [&](std::int64_t layer) { return !a.sees_all(layer); };
  const auto windows = std::ranges::count_if(std::views::iota(std::int64_t{0}, a.layers), has_window);
  return fmt::format("{}{}, width {}, {}, vocabulary {}", counted(a.layers, "layer"),
                     windows > 0 ? fmt::format(" ({} with a window of {})", windows, a.window) : "", a.width,
                     counted(a.heads, "head"), a.vocab);
}

Architecture preset(const std::string& name) {
  for (const FamilyRules& rules : all_families()) {
    const auto p = std::ranges::find(rules.presets, name, &Preset::name);
    if (p == rules.presets.end()) continue;
    Architecture a{p->sizes, rules.form};
    a.tied_head = p->tied_head, a.rope_scaling = p->rope_scaling;
    return a;
  }
  throw refuse("model.preset", name)
      .because("there is no such preset")
      .hint("{}Use one of {}", did_you_mean(name), fmt::join(preset_names(), ", "));
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
      throw refusal("model.{} = {} is out of range", size.option, value).use("1 to {}", size.largest);
  }
  if (a.heads % a.kv_heads != 0) {
    throw refusal("model.kv_heads = {} does not divide model.heads = {}", a.kv_heads, a.heads).use("a divisor of it");
  }
  if (a.head_width() > 256) {
    throw refusal("model.width = {} over {} heads gives heads of {}", a.width, a.heads, a.head_width())
        .use("heads of at most 256");
  }
  if (!(a.dropout >= 0 && a.dropout < 1))
    throw refusal("model.dropout = {} is out of range", a.dropout).use("0 up to, not including, 1");
  if (!(a.norm_epsilon > 0 && std::isfinite(a.norm_epsilon))) {
    throw refuse("norm epsilon", a.norm_epsilon).because("it must keep the norm finite").use("a number above 0");
  }
  if (!(a.rope_theta > 0 && std::isfinite(a.rope_theta)))
    throw refuse("rope theta", a.rope_theta).use("a number above 0");
  if (a.rope_scaling != RopeScaling{}) validate_scaling(a.rope_scaling);
  validate_family(a);
}

}  // namespace tessera
