// Reads what config.json says of single layers: their rotary positions and windows.

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "formats/config_reader.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kFirstWindow = 28;  ///< Transformers' default of max_window_layers

/// Reads the scaling that `object`, the value of `key`, describes.
RopeScaling scaling_of(const ConfigReader& config, const std::string& key, const Json& object, std::int64_t context) {
  std::string kind = "default";
  for (const char* name : {"rope_type", "type"}) {
    const Json* value = ConfigReader::find_in(object, name);
    if (value == nullptr) continue;
    if (*value != "default" && *value != "llama3" && *value != "linear")
      config.refuse_model(fmt::format("{}.{}", key, name), *value, "default, linear or llama3");
    kind = value->get<std::string>();
    break;
  }
  RopeScaling scaling;
  if (kind == "default") return scaling;
  const auto needed = [&](const char* name) {
    if (ConfigReader::find_in(object, name) == nullptr)
      throw refusal("{}: {} lacks {}, which rope_type {} needs", config.path().string(), key, name, kind);
    return config.positive_in(object, name, 1);
  };
  scaling.factor = needed("factor");
  if (kind == "linear") return scaling;
  scaling.low_freq_factor = needed("low_freq_factor");
  scaling.high_freq_factor = needed("high_freq_factor");
  constexpr const char* key_of_original = "original_max_position_embeddings";
  // Beside the object it counts first, as in Transformers.
  const Json& holder = config.find(key_of_original) != nullptr ? config.json() : object;
  const double original = config.positive_in(holder, key_of_original, static_cast<double>(context));
  if (original != std::floor(original) || original > std::numeric_limits<std::int32_t>::max()) {
    throw refusal("{}: {}.original_max_position_embeddings = {} is not supported", config.path().string(), key,
                  original)
        .use("a whole number");
  }
  scaling.original_context = static_cast<std::int64_t>(original);
  config.require_number("attention_factor", object, 1);
  return scaling;
}

/// Reads base and scaling from `object`, which is the value of `key` or of one type of layers there.
void read_positions(const ConfigReader& config, const std::string& key, const Json& object, Architecture& model) {
  if (!object.is_object()) throw refusal("{}: {} is not an object", config.path().string(), key);
  model.rope_theta = config.positive_in(object, "rope_theta", model.rope_theta);
  config.require_number("partial_rotary_factor", object, 1);
  model.rope_scaling = scaling_of(config, key, object, model.context);
}

/// Reads layer_types: which layers see all.
void read_layer_types(const ConfigReader& config, const Json& list, bool has_window, std::vector<bool>& full) {
  if (!list.is_array()) config.refuse("layer_types", "a list");
  if (list.size() != full.size()) {
    throw refusal("{}: layer_types has {} entries for {} layers", config.path().string(), list.size(), full.size())
        .use("one for each layer");
  }
  for (std::size_t layer = 0; layer < full.size(); ++layer) {
    full[layer] = list[layer] == kFullAttention;
    if (full[layer] || (has_window && list[layer] == kSlidingAttention)) continue;
    config.refuse_model("layer_types", list[layer],
                        has_window ? fmt::format("{} or {}", kFullAttention, kSlidingAttention) : kFullAttention);
  }
}

}  // namespace

void read_rope(const ConfigReader& config, Architecture& model) {
  config.require_number("partial_rotary_factor", config.json(), 1);
  // As in Transformers, rope_scaling stands in place of rope_parameters, and Gemma 3, whose types of layers have bases
  // of their own, adds it to them.
  const bool has_bases = model.rope_local_theta > 0;
  const Json* scaling = config.find("rope_scaling");
  const bool replaces = !has_bases && scaling != nullptr && !scaling->empty();
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* value = config.find(key);
    if (value == nullptr) continue;
    if (!value->is_object()) config.refuse(key, "an object or null");
    if (value->empty() || (replaces && value != scaling)) continue;
    const Json *full = ConfigReader::find_in(*value, kFullAttention),
               *sliding = ConfigReader::find_in(*value, kSlidingAttention);
    const bool is_flat = full == nullptr && sliding == nullptr;
    if (is_flat && has_bases && value != scaling)
      config.refuse(key, fmt::format("an object with {} and {}", kFullAttention, kSlidingAttention));
    if (is_flat) read_positions(config, key, *value, model);
    if (full != nullptr) read_positions(config, fmt::format("{}.{}", key, kFullAttention), *full, model);
    if (sliding == nullptr) continue;
    Architecture local = model;
    if (has_bases) local.rope_theta = model.rope_local_theta;
    local.rope_scaling = {};
    read_positions(config, fmt::format("{}.{}", key, kSlidingAttention), *sliding, local);
    if (local.rope_scaling.on() || (!has_bases && local.rope_theta != model.rope_theta))
      config.refuse_model(fmt::format("{}.{}", key, kSlidingAttention), *sliding, "what is not scaled");
    if (has_bases) model.rope_local_theta = local.rope_theta;
  }
}

void read_windows(const ConfigReader& config, const WindowKeys& keys, Architecture& model) {
  const auto bound = std::ranges::find(kModelSizes, &ModelSizes::layers, &ModelSize::field);
  if (model.layers > bound->largest) return;  // validate() refuses them
  // Transformers does not read layer_types where all layers have a window. Where layers follow a pattern, they do so
  // without the size of a window, too.
  const bool has_pattern = model.full_every > 0, has_types = keys.usual == 0 || keys.has_switch || has_pattern;
  const Json* list = has_types ? config.find("layer_types") : nullptr;
  const bool is_null = config.contains("sliding_window") && config.find("sliding_window") == nullptr;
  const bool has_window = keys.usual > 0 && (!keys.has_switch || config.truth("use_sliding_window", false));
  model.window = has_window && !is_null ? config.size("sliding_window").value_or(keys.usual) : 0;
  std::vector<bool> full(static_cast<std::size_t>(model.layers), model.window == 0);
  if (list != nullptr) {
    read_layer_types(config, *list, model.window > 0, full);
  } else if (model.window > 0 || has_pattern) {
    const std::int64_t first = keys.has_switch ? config.size("max_window_layers", 0).value_or(kFirstWindow) : 0;
    const std::int64_t every = has_pattern ? config.size("sliding_window_pattern").value_or(model.full_every) : 0;
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
      full[static_cast<std::size_t>(layer)] = layer < first || (every > 0 && (layer + 1) % every == 0);
  }
  const bool sees_all = std::ranges::find(full, false) == full.end();
  if (!sees_all && model.window == 0) config.refuse("sliding_window", "a number, because layers have windows");
  if (sees_all) model.window = 0;
  const auto is_usual = [&](std::int64_t layer) {
    return full[static_cast<std::size_t>(layer)] == model.sees_all(layer);
  };
  if (!std::ranges::all_of(std::views::iota(std::int64_t{0}, model.layers), is_usual)) model.full_layers = full;
}

}  // namespace tessera
