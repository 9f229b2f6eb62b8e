#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <string_view>
#include <variant>

#include "formats/refuse_folder.hpp"
#include "tessera/base/hub_name.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/hugging_face_json.hpp"
#include "tessera/model/family.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestConfig = 16 << 20;
constexpr std::int64_t kLargestSize = std::numeric_limits<std::int32_t>::max();

/// config.json with typed look-ups; a missing key and null are the same.
class ConfigReader {
 public:
  /// `json` must outlive it.
  ConfigReader(std::filesystem::path path, const nlohmann::json& json) : path_(std::move(path)), json_(json) {}

  /// Returns a size of at least 1.
  std::optional<std::int64_t> size(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || *value < 1 || *value > kLargestSize) {
      refuse(key, "a whole number from 1 to 2147483647");
    }
    return value->get<std::int64_t>();
  }
  double positive(const char* key, double fallback) const { return positive_in(json_, key, fallback); }

  bool truth(const char* key, bool fallback) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(key, "true or false");
    return value->get<bool>();
  }
  /// Throws UsageError unless the truth value is the supported one.
  void require(const char* key, bool wanted) const {
    if (truth(key, wanted) != wanted) refuse_model(key, json_.at(key), wanted ? "true" : "false");
  }

  std::string text(const char* key, const std::string& fallback) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) refuse(key, "text");
    return value->get<std::string>();
  }
  void require(const char* key, const ConfigKey::Text& wanted) const {
    const std::string value = text(key, wanted.value);
    if (value == wanted.value || (wanted.other != nullptr && value == wanted.other)) return;
    const std::string other = wanted.other == nullptr ? "" : fmt::format(" or {}", wanted.other);
    refuse_model(key, json_.at(key), wanted.value + other);
  }
  void require(const char* key, const ConfigKey::AllOfList& wanted) const {
    const nlohmann::json* list = find(key);
    if (list == nullptr) return;
    if (!list->is_array()) refuse(key, "a list");
    for (const auto& item : *list) {
      if (item != wanted.value) refuse_model(key, item, wanted.value);
    }
  }

  /// Throws UsageError if a layer attends to a window. As in Transformers, windows take a list of layer_types, or all
  /// of use_sliding_window, a sliding_window that is not null and a layer beyond max_window_layers.
  void require_no_windows(std::int64_t layers) const {
    constexpr std::int64_t usual_layers = 28;
    const bool has_width = !json_.contains("sliding_window") || find("sliding_window") != nullptr;
    const bool has_windows = truth("use_sliding_window", false) && has_width && find("layer_types") == nullptr &&
                             layers > size("max_window_layers").value_or(usual_layers);
    if (has_windows) refuse_model("use_sliding_window", true, "false");
  }

  /// Reads rotary base and scaling. Older folders write rope_theta and rope_scaling, newer ones rope_parameters for
  /// both; a scaling's kind is called rope_type, or type.
  void read_rope(Architecture& model, double base) const {
    require_number("partial_rotary_factor", json_, 1);
    model.rope_theta = positive_in(json_, "rope_theta", base);
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const nlohmann::json* value = find(key);
      if (value == nullptr) continue;
      if (!value->is_object()) refuse(key, "an object or null");
      model.rope_theta = positive_in(*value, "rope_theta", model.rope_theta);
      require_number("partial_rotary_factor", *value, 1);
      const std::string kind = rope_kind(key, *value);
      if (kind == "llama3") model.rope_scaling = llama3_scaling(key, *value, model.context);
    }
  }

  /// Returns model_type, or derives it from `architectures` if it is missing.
  std::string model_type() const {
    std::string type = text("model_type", "");
    if (!type.empty()) return type;
    const nlohmann::json* list = find("architectures");
    if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return "";
    auto name = list->front().get<std::string>();
    for (const FamilyRules& rules : all_families()) {
      for (const std::string_view prefix : rules.class_prefixes) {
        if (!prefix.empty() && name.starts_with(prefix)) return std::string(rules.name);
      }
    }
    return name;
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  const nlohmann::json* find(const char* key) const {
    const auto place = json_.find(key);
    return place == json_.end() || place->is_null() ? nullptr : &*place;
  }

  std::string rope_kind(const char* key, const nlohmann::json& object) const {
    for (const char* name : {"rope_type", "type"}) {
      const auto kind = object.find(name);
      if (kind == object.end() || kind->is_null()) continue;
      if (*kind == "default" || *kind == "llama3") return kind->get<std::string>();
      refuse_model(fmt::format("{}.{}", key, name), *kind, "default or llama3");
    }
    return "default";
  }

  RopeScaling llama3_scaling(const char* key, const nlohmann::json& object, std::int64_t usual_context) const {
    const auto needed = [&](const char* name) {
      const auto place = object.find(name);
      if (place == object.end() || place->is_null())
        throw refusal("{}: {} lacks {}, which rope_type llama3 needs", path_.string(), key, name);
      return positive_in(object, name, 1);
    };
    RopeScaling scaling;
    scaling.factor = needed("factor");
    scaling.low_freq_factor = needed("low_freq_factor");
    scaling.high_freq_factor = needed("high_freq_factor");
    const double context = positive_in(object, "original_max_position_embeddings", static_cast<double>(usual_context));
    if (context != std::floor(context) || context > static_cast<double>(kLargestSize)) {
      throw refusal("{}: {}.original_max_position_embeddings = {} is not supported", path_.string(), key, context)
          .use("a whole number");
    }
    scaling.original_context = static_cast<std::int64_t>(context);
    require_number("attention_factor", object, 1);
    return scaling;
  }

  /// Throws UsageError unless a number, if it is there, is the supported one.
  void require_number(const char* key, const nlohmann::json& object, double wanted) const {
    const auto place = object.find(key);
    if (place == object.end() || place->is_null() || (place->is_number() && *place == wanted)) return;
    refuse_model(key, *place, fmt::format("{}", wanted));
  }

  double positive_in(const nlohmann::json& object, const char* key, double fallback) const {
    const auto place = object.find(key);
    if (place == object.end() || place->is_null()) return fallback;
    if (!place->is_number() || !(place->get<double>() > 0) || !std::isfinite(place->get<double>())) {
      throw refusal("{}: {} = {} is not supported", path_.string(), key, value_text(*place)).use("a number above 0");
    }
    return place->get<double>();
  }

  static std::string value_text(const nlohmann::json& value) {
    if (value.is_structured()) return value.is_array() ? "[...]" : "{...}";
    return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 100);
  }

  /// Refuses what the model is. Unlike a value that nothing reads, another one would not belong to the weights.
  [[noreturn]] void refuse_model(const std::string& key, const nlohmann::json& value,
                                 const std::string& supported) const {
    throw refusal("{}: {} = {} is not supported", path_.string(), key, value_text(value))
        .because("only {} is", supported)
        .hint("The weights belong to this value, so take another model");
  }

  [[noreturn]] void refuse(const char* key, const char* allowed) const {
    throw refusal("{}: {} = {} is not supported", path_.string(), key, value_text(json_.at(key))).use("{}", allowed);
  }

  std::filesystem::path path_;
  const nlohmann::json& json_;
};

/// Reads a size. If there are two keys for it, the latter counts.
std::int64_t read_size(const ConfigReader& config, const FamilyRules& rules, std::int64_t Architecture::*field,
                       std::optional<std::int64_t> fallback = std::nullopt) {
  const char* missing = "";
  for (const ConfigKey& key : rules.keys | std::views::join | std::views::reverse) {
    const auto* read = std::get_if<ConfigKey::Size>(&key.value);
    if (read == nullptr || read->field != field) continue;
    if (const auto size = config.size(key.name)) return *size;
    missing = key.name;
  }
  if (!fallback) throw refusal("{} lacks {}", config.path().string(), missing);
  return *fallback;
}

void require_supported(const ConfigReader& config, const FamilyRules& rules) {
  for (const ConfigKey& key : rules.keys | std::views::join) {
    if (key.use == ConfigKey::Use::written) continue;
    if (const auto* truth = std::get_if<bool>(&key.value)) config.require(key.name, *truth);
    if (const auto* text = std::get_if<ConfigKey::Text>(&key.value)) config.require(key.name, *text);
    if (const auto* list = std::get_if<ConfigKey::AllOfList>(&key.value)) config.require(key.name, *list);
  }
}

/// Returns head_dim; 0 where it is width / heads, by the rule or by chance.
std::int64_t read_head_dim(const ConfigReader& config, const FamilyRules& rules, const Architecture& model) {
  constexpr std::int64_t missing = 128;  // as in Transformers
  if (rules.head_dim == HeadDim::always) return read_size(config, rules, &Architecture::head_dim, missing);
  if (rules.head_dim == HeadDim::never) return 0;
  const std::int64_t own = read_size(config, rules, &Architecture::head_dim, 0);
  return own * model.heads == model.width ? 0 : own;
}

Architecture read_model(const ConfigReader& config, const FamilyRules& rules) {
  require_supported(config, rules);
  Architecture model{{}, rules.form};
  const auto size = [&](auto... arguments) { return read_size(config, rules, arguments...); };
  model.layers = size(&Architecture::layers);
  if (model.positions == PositionKind::rotary) config.require_no_windows(model.layers);
  model.heads = size(&Architecture::heads);
  model.kv_heads = size(&Architecture::kv_heads, model.heads);
  model.width = size(&Architecture::width);
  model.ffn_width =
      rules.has_own_sizes ? size(&Architecture::ffn_width) : size(&Architecture::ffn_width, 4 * model.width);
  model.vocab = size(&Architecture::vocab);
  model.context = size(&Architecture::context);
  for (const ConfigKey& key : rules.keys | std::views::join) {
    if (key.use == ConfigKey::Use::written) continue;
    const auto* number = std::get_if<ConfigKey::Number>(&key.value);
    if (number != nullptr && number->field == &Architecture::rope_theta) {
      config.read_rope(model, number->fallback);
    } else if (number != nullptr) {
      model.*number->field = config.positive(key.name, number->fallback);
    }
    if (const auto* truth = std::get_if<ConfigKey::Truth>(&key.value))
      model.*truth->field = config.truth(key.name, truth->fallback);
  }
  model.head_dim = read_head_dim(config, rules, model);
  return model;
}

}  // namespace

Architecture read_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error))
    throw refusal("{} is a file", folder.string()).hint("Give the folder with config.json and model.safetensors");
  if (!std::filesystem::exists(folder, error)) {
    const std::string hint = hub_hint(folder);
    throw refusal("{} does not exist, and names of the Hugging Face hub are not fetched", folder.string())
        .hint("{}", hint.empty() ? "Give a folder on this machine, or a checkpoint" : hint);
  }
  if (!path_exists(path)) throw refuse_folder(folder, "config.json");
  return architecture_of(read_json_object(path, kLargestConfig), path);
}

Architecture architecture_of(const nlohmann::json& json, const std::filesystem::path& path) {
  const ConfigReader config(path, json);
  const std::string type = config.model_type();
  for (const FamilyRules& rules : all_families()) {
    if (type == rules.name) return read_model(config, rules);
  }
  std::string names = names_of_families();
  names.replace(names.rfind(", "), 2, " or ");
  throw refusal("{}: model_type = {} is not supported", path.string(), type.empty() ? "nothing" : shown(type))
      .because("only {} are", names)
      .hint("Take a model of one of these families");
}

}  // namespace tessera
