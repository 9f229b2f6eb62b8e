#include <ranges>

#include "tessera/formats/hugging_face_json.hpp"
#include "tessera/model/family.hpp"

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
  nlohmann::ordered_json operator()(const ConfigKey::AllOfList& list) const {
    return std::vector<std::string>(static_cast<std::size_t>(a.layers), list.value);
  }
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

}  // namespace

nlohmann::ordered_json config_of(const Architecture& a) {
  const FamilyRules& rules = rules_of(a.family);
  nlohmann::ordered_json json = {{"architectures", {rules.transformers_class}}, {"model_type", rules.name}};
  for (const ConfigKey& key : rules.keys | std::views::join) {
    if (key.use != ConfigKey::Use::read || std::visit(IsUnusual{a}, key.value))
      json[key.name] = std::visit(ValueOf{a}, key.value);
  }
  if (a.rope_scaling.on()) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", a.rope_scaling.factor},
                            {"low_freq_factor", a.rope_scaling.low_freq_factor},
                            {"high_freq_factor", a.rope_scaling.high_freq_factor},
                            {"original_max_position_embeddings", a.rope_scaling.original_context}};
  }
  return json;
}

}  // namespace tessera
