#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <ranges>
#include <string_view>
#include <variant>

#include "formats/config_reader.hpp"
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

/// Returns model_type, or derives it from `architectures` if it is missing.
std::string model_type(const ConfigReader& config) {
  std::string type = config.text("model_type", "");
  if (!type.empty()) return type;
  const nlohmann::json* list = config.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return "";
  auto name = list->front().get<std::string>();
  for (const FamilyRules& rules : all_families()) {
    const ConfigForm& form = config_form(rules.form.family);
    for (const std::string_view prefix : form.class_prefixes) {
      if (!prefix.empty() && name.starts_with(prefix)) return std::string(form.model_type);
    }
  }
  return name;
}

/// Reads a size. If there are two keys for it, the latter counts.
std::int64_t read_size(const ConfigReader& config, const ConfigForm& form, std::int64_t Architecture::*field,
                       std::int64_t fallback = 0) {
  const char* missing = "";
  for (const ConfigKey& key : form.keys | std::views::join | std::views::reverse) {
    const auto* read = std::get_if<ConfigKey::Size>(&key.value);
    if (read == nullptr || read->field != field) continue;
    if (const auto size = config.size(key.name)) return *size;
    missing = key.name;
    if (read->fallback != 0) fallback = read->fallback;
  }
  if (fallback == 0) throw refusal("{} lacks {}", config.path().string(), missing);
  return fallback;
}

/// Returns head_dim; 0 where it is width / heads, by the rule or by chance.
std::int64_t read_head_dim(const ConfigReader& config, const ConfigForm& form, const Architecture& model) {
  const HeadDim rule = rules_of(model.family).head_dim;
  if (rule == HeadDim::always) return read_size(config, form, &Architecture::head_dim);
  if (rule == HeadDim::never) return 0;
  const std::int64_t own = config.size("head_dim").value_or(0);
  return own * model.heads == model.width ? 0 : own;
}

/// Reads a key that is not a size, or requires its value.
struct ReadKey {
  void operator()(const ConfigKey::Size&) const {}
  void operator()(const ConfigKey::Number& held) const { model.*held.field = config.positive(name, held.fallback); }
  void operator()(const ConfigKey::Truth& held) const { model.*held.field = config.truth(name, held.fallback); }
  template <class T>
  void operator()(const T& wanted) const {
    config.require(name, wanted);
  }
  const ConfigReader& config;
  const char* name;
  Architecture& model;
};

Architecture read_model(const ConfigReader& config, const FamilyRules& rules) {
  const ConfigForm& form = config_form(rules.form.family);
  Architecture model{{}, rules.form};
  config.require("is_causal", true);
  config.require("per_layer_config", ConfigKey::Nothing());
  for (const ConfigKey& key : form.keys | std::views::join) {
    if (key.use != ConfigKey::Use::written) std::visit(ReadKey{config, key.name, model}, key.value);
  }
  const auto size = [&](auto... arguments) { return read_size(config, form, arguments...); };
  model.layers = size(&Architecture::layers);
  model.heads = size(&Architecture::heads);
  model.kv_heads = size(&Architecture::kv_heads, model.heads);
  model.width = size(&Architecture::width);
  model.ffn_width = size(&Architecture::ffn_width, rules.has_own_sizes ? 0 : 4 * model.width);
  model.vocab = size(&Architecture::vocab);
  model.context = size(&Architecture::context);
  model.head_dim = read_head_dim(config, form, model);
  if (form.query_scalar > 0) {
    const std::int64_t scalar = config.size("query_pre_attn_scalar").value_or(form.query_scalar);
    model.query_scalar = scalar == model.head_width() ? 0 : scalar;
  }
  if (model.positions == PositionKind::rotary) {
    read_windows(config, form.windows, model);
    read_rope(config, model);
  }
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
  const std::string type = model_type(config);
  std::vector<std::string_view> known;
  for (const FamilyRules& rules : all_families()) {
    const ConfigForm& form = config_form(rules.form.family);
    known.push_back(form.model_type);
    if (type == known.back()) return read_model(config, rules);
    const nlohmann::json* text = config.find("text_config");
    if (!form.outer_type.empty() && type == form.outer_type && text != nullptr && text->is_object())
      return read_model(ConfigReader(path, *text), rules);
  }
  std::string names = fmt::format("{}", fmt::join(known, ", "));
  names.replace(names.rfind(", "), 2, " or ");
  throw refusal("{}: model_type = {} is not supported", path.string(), type.empty() ? "nothing" : shown(type))
      .because("only {} are", names)
      .hint("Take a model of one of these families");
}

}  // namespace tessera
