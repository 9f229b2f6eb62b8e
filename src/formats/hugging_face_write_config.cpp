#include <algorithm>
#include <ranges>

#include "formats/config_form.hpp"
#include "tessera/formats/hugging_face_json.hpp"

namespace tessera {

namespace {

/// Returns the value of a key: a field of the architecture, or the only supported one.
struct ValueOf {
  template <class T>
  nlohmann::ordered_json operator()(const ConfigKey::Field<T>& held) const {
    return a.*held.field;
  }
  nlohmann::ordered_json operator()(bool value) const { return value; }
  nlohmann::ordered_json operator()(const ConfigKey::Text& text) const { return text.value; }
  nlohmann::ordered_json operator()(const ConfigKey::Nothing&) const { return nullptr; }
  const Architecture& a;
};

/// Returns whether a field differs from its fallback.
struct IsUnusual {
  template <class T>
  bool operator()(const ConfigKey::Field<T>& held) const {
    return a.*held.field != held.fallback;
  }
  template <class T>
  bool operator()(const T&) const {
    return false;
  }
  const Architecture& a;
};

/// Writes which layers have windows, for every way in which Transformers has looked them up. A family with a pattern
/// has types of layers always, because Transformers puts a window where they are missing.
void write_windows(const Architecture& a, const WindowKeys& keys, nlohmann::ordered_json& json) {
  if (keys.usual == 0) return;
  const bool has_pattern = a.full_every > 0;
  if (keys.has_switch) json["use_sliding_window"] = a.window > 0;
  if (a.window > 0 || has_pattern)
    json["sliding_window"] = a.window > 0 ? a.window : keys.usual;
  else if (!keys.has_switch)
    json["sliding_window"] = nullptr;
  if (!has_pattern && (a.window == 0 || !keys.has_switch)) return;
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < a.layers; ++layer)
    types.emplace_back(a.sees_all(layer) ? kFullAttention : kSlidingAttention);
  json["layer_types"] = types;
  if (keys.has_switch) json["max_window_layers"] = std::ranges::find(types, kSlidingAttention) - types.begin();
  if (has_pattern && a.window > 0 && a.full_layers.empty()) json["sliding_window_pattern"] = a.full_every;
}

/// Writes how rotary positions are scaled.
void write_scaling(const RopeScaling& scaling, nlohmann::ordered_json& json) {
  if (!scaling.on()) return;
  json["rope_scaling"] = {{"rope_type", scaling.is_linear() ? "linear" : "llama3"}, {"factor", scaling.factor}};
  if (scaling.is_linear()) return;
  json["rope_scaling"].update({{"low_freq_factor", scaling.low_freq_factor},
                               {"high_freq_factor", scaling.high_freq_factor},
                               {"original_max_position_embeddings", scaling.original_context}});
}

}  // namespace

nlohmann::ordered_json config_of(const Architecture& a) {
  const ConfigForm& form = config_form(a.family);
  nlohmann::ordered_json json = {{"architectures", {form.transformers_class}}, {"model_type", form.model_type}};
  for (const ConfigKey& key : form.keys | std::views::join) {
    if (key.use != ConfigKey::Use::read || std::visit(IsUnusual{a}, key.value))
      json[key.name] = std::visit(ValueOf{a}, key.value);
  }
  if (form.query_scalar > 0) json["query_pre_attn_scalar"] = a.query_scalar > 0 ? a.query_scalar : a.head_width();
  write_windows(a, form.windows, json);
  write_scaling(a.rope_scaling, json);
  return json;
}

}  // namespace tessera
