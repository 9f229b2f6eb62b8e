#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/hugging_face_json.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestConfig = 16 << 20;
constexpr std::int64_t kLargestSize = std::numeric_limits<std::int32_t>::max();

/// config.json with typed look-ups; a missing key and null are the same.
class ConfigReader {
 public:
  /// `json` outlives it.
  ConfigReader(std::filesystem::path path, const nlohmann::json& json) : path_(std::move(path)), json_(json) {}

  /// Returns a size of at least 1.
  std::optional<std::int64_t> size(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || *value < 1 || *value > kLargestSize) {
      refuse(key, "a whole number from 1 to 2147483647 is allowed");
    }
    return value->get<std::int64_t>();
  }
  std::int64_t needed_size(const char* key) const {
    const auto value = size(key);
    if (!value) throw UsageError("{} lacks {}", path_.string(), key);
    return *value;
  }

  double positive(const char* key, double fallback) const { return positive_in(json_, key, fallback); }

  bool truth(const char* key, bool fallback) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(key, "true or false is allowed");
    return value->get<bool>();
  }
  /// UsageError unless the truth value is the supported one.
  void require(const char* key, bool wanted) const {
    if (truth(key, wanted) != wanted) refuse(key, wanted ? "only true is supported" : "only false is supported");
  }

  std::string text(const char* key, const std::string& fallback) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) refuse(key, "text is allowed");
    return value->get<std::string>();
  }
  void require_text(const char* key, const char* fallback, std::initializer_list<std::string_view> allowed) const {
    const std::string value = text(key, fallback);
    std::string list;
    for (const std::string_view choice : allowed) {
      if (value == choice) return;
      list += (list.empty() ? "" : " or ") + std::string(choice);
    }
    refuse(key, ("only " + list + " is supported").c_str());
  }

  /// Reads rotary base and scaling. Older folders write rope_theta and rope_scaling, newer ones rope_parameters for
  /// both; a scaling's kind is called rope_type, or type.
  void read_rope(Architecture& model) const {
    require_number("partial_rotary_factor", json_, 1);
    model.rope_theta = positive_in(json_, "rope_theta", 10000.0);
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const nlohmann::json* value = find(key);
      if (value == nullptr) continue;
      if (!value->is_object()) refuse(key, "an object or null is allowed");
      model.rope_theta = positive_in(*value, "rope_theta", model.rope_theta);
      require_number("partial_rotary_factor", *value, 1);
      const std::string kind = rope_kind(key, *value);
      if (kind == "llama3") model.rope_scaling = llama3_scaling(key, *value);
    }
  }

  /// UsageError if a layer's attention is not full.
  void require_full_attention() const {
    require("use_sliding_window", false);
    const nlohmann::json* types = find("layer_types");
    if (types == nullptr) return;
    if (!types->is_array()) refuse("layer_types", "a list is allowed");
    for (const auto& type : *types) {
      if (type != "full_attention") refuse("layer_types", "only full_attention is supported");
    }
  }

  /// Returns model_type, or derives it from `architectures` if it is missing.
  std::string model_type() const {
    std::string type = text("model_type", "");
    if (!type.empty()) return type;
    const nlohmann::json* list = find("architectures");
    if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return "";
    auto name = list->front().get<std::string>();
    if (name.starts_with("GPT2")) return "gpt2";
    if (name.starts_with("Qwen2F") || name.starts_with("Qwen2M")) return "qwen2";
    if (name.starts_with("Llama")) return "llama";
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
      throw UsageError("{}: {} of {} {} is not supported (default or llama3 is allowed)", path_.string(), name, key,
                       value_text(*kind));
    }
    return "default";
  }

  RopeScaling llama3_scaling(const char* key, const nlohmann::json& object) const {
    const auto needed = [&](const char* name) {
      const auto place = object.find(name);
      if (place == object.end() || place->is_null())
        throw UsageError("{}: {} lacks {}, which rope_type llama3 needs", path_.string(), key, name);
      return positive_in(object, name, 1);
    };
    RopeScaling scaling;
    scaling.factor = needed("factor");
    scaling.low_freq_factor = needed("low_freq_factor");
    scaling.high_freq_factor = needed("high_freq_factor");
    const double context = needed("original_max_position_embeddings");
    if (context != std::floor(context) || context > static_cast<double>(kLargestSize)) {
      throw UsageError("{}: original_max_position_embeddings of {} is not supported (a whole number is allowed)",
                       path_.string(), key);
    }
    scaling.original_context = static_cast<std::int64_t>(context);
    require_number("attention_factor", object, 1);
    return scaling;
  }

  /// UsageError unless a number, if it is there, is the supported one.
  void require_number(const char* key, const nlohmann::json& object, double wanted) const {
    const auto place = object.find(key);
    if (place == object.end() || place->is_null() || (place->is_number() && *place == wanted)) return;
    throw UsageError("{}: {} is not supported (only {} is)", path_.string(), key, wanted);
  }

  double positive_in(const nlohmann::json& object, const char* key, double fallback) const {
    const auto place = object.find(key);
    if (place == object.end() || place->is_null()) return fallback;
    if (!place->is_number() || !(place->get<double>() > 0) || !std::isfinite(place->get<double>())) {
      throw UsageError("{}: {} is not supported (a number above 0 is allowed)", path_.string(), key);
    }
    return place->get<double>();
  }

  static std::string value_text(const nlohmann::json& value) {
    if (value.is_structured()) return "what it says";
    return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 100);
  }

  [[noreturn]] void refuse(const char* key, const char* allowed) const {
    throw UsageError("{}: {} = {} is not supported ({})", path_.string(), key, value_text(json_.at(key)), allowed);
  }

  std::filesystem::path path_;
  const nlohmann::json& json_;
};

Architecture read_gpt2(const ConfigReader& config) {
  config.require_text("activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("reorder_and_upcast_attn", false);
  config.require("add_cross_attention", false);
  Architecture model;
  model.family = Family::gpt2;
  model.layers = config.needed_size("n_layer");
  model.heads = model.kv_heads = config.needed_size("n_head");
  model.width = config.needed_size("n_embd");
  model.ffn_width = config.size("n_inner").value_or(4 * model.width);
  model.vocab = config.needed_size("vocab_size");
  const auto positions = config.size("n_positions");
  model.context = positions ? *positions : config.needed_size("n_ctx");
  model.norm_epsilon = config.positive("layer_norm_epsilon", 1e-5);
  model.tied_head = config.truth("tie_word_embeddings", true);
  return model;
}

/// Reads the common settings of Qwen2 and Llama.
Architecture read_rotary(const ConfigReader& config, Family family) {
  config.require_text("hidden_act", "silu", {"silu"});
  config.require_full_attention();
  Architecture model;
  model.family = family;
  model.norm = NormKind::rms_norm;
  model.positions = PositionKind::rotary;
  model.mlp = MlpKind::swiglu;
  model.linear_bias = false;
  model.qkv_bias = family == Family::qwen2;
  model.layers = config.needed_size("num_hidden_layers");
  model.heads = config.needed_size("num_attention_heads");
  model.kv_heads = config.size("num_key_value_heads").value_or(model.heads);
  model.width = config.needed_size("hidden_size");
  model.ffn_width = config.needed_size("intermediate_size");
  model.vocab = config.needed_size("vocab_size");
  model.context = config.needed_size("max_position_embeddings");
  model.norm_epsilon = config.positive("rms_norm_eps", 1e-6);
  config.read_rope(model);
  model.tied_head = config.truth("tie_word_embeddings", false);
  const auto head_width = config.size("head_dim");
  if (head_width && *head_width * model.heads != model.width) {
    throw UsageError("{}: head_dim = {} is not supported (only hidden_size / num_attention_heads is, here {} / {}{})",
                     config.path().string(), *head_width, model.width, model.heads,
                     model.width % model.heads == 0 ? fmt::format(" = {}", model.width / model.heads)
                                                    : ", which is no whole number");
  }
  return model;
}

}  // namespace

Architecture read_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error))
    throw UsageError("{} is a file: the folder with config.json and model.safetensors is wanted", folder.string());
  if (!std::filesystem::exists(folder, error)) {
    throw UsageError(
        "{} does not exist: a folder on this machine is needed (names of the Hugging Face hub are not "
        "fetched), or a checkpoint",
        folder.string());
  }
  return architecture_of(read_json_object(path, kLargestConfig), path);
}

Architecture architecture_of(const nlohmann::json& json, const std::filesystem::path& path) {
  const ConfigReader config(path, json);
  const std::string type = config.model_type();
  if (type == "gpt2") return read_gpt2(config);
  if (type == "qwen2") return read_rotary(config, Family::qwen2);
  if (type == "llama") {
    config.require("attention_bias", false);
    config.require("mlp_bias", false);
    return read_rotary(config, Family::llama);
  }
  throw UsageError("{}: model_type = {} is not supported (gpt2, qwen2 or llama is allowed)", path.string(),
                   type.empty() ? "nothing" : shown(type));
}

}  // namespace tessera
