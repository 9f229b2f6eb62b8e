#include "tessera/formats/peft.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/model/adapters.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLargestPeftConfig = 16 << 20;

/// Keys of adapter_config.json that change nothing of what is computed, or that are read below. Which modules there are
/// is seen from the tensors.
constexpr std::array kReadKeys{"peft_type",
                               "task_type",
                               "auto_mapping",
                               "base_model_name_or_path",
                               "revision",
                               "inference_mode",
                               "r",
                               "lora_alpha",
                               "lora_dropout",
                               "target_modules",
                               "exclude_modules",
                               "layers_to_transform",
                               "layers_pattern",
                               "fan_in_fan_out",
                               "bias",
                               "use_rslora",
                               "init_lora_weights",
                               "megatron_core",
                               "loftq_config",
                               "eva_config",
                               "qalora_group_size",
                               "peft_version",
                               "ensure_weight_tying"};

/// First weights of A and B that leave the model's own as they are.
constexpr std::array kPlainBeginnings{"gaussian", "eva", "orthogonal"};

bool is_nothing(const Json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

std::filesystem::path file_in(const std::filesystem::path& folder, const char* name) {
  if (!path_exists(folder / name)) {
    throw refusal("{} has no {}", folder.string(), name)
        .use("a folder that PEFT's save_pretrained has written, with {} and {}", kPeftConfig, kPeftWeights);
  }
  return folder / name;
}

/// Returns adapters of all linears, whose tensors have every name that may occur.
Architecture with_all(Architecture architecture, const Adapters& adapters) {
  architecture.adapters = adapters;
  architecture.adapters.targets = linear_modules(architecture);
  return architecture;
}

}  // namespace

PeftFolder::PeftFolder(const std::filesystem::path& folder, const Architecture& base)
    : folder_(folder), file_(file_in(folder, kPeftWeights)) {
  read_config(base);
  find_tensors(base);
}

void PeftFolder::read_config(const Architecture& base) {
  const std::filesystem::path path = file_in(folder_, kPeftConfig);
  const Json config = read_json_object(path, kLargestPeftConfig);
  const auto refuse_key = [&](const std::string& key) {
    return refusal("{}: {} = {} does not work", path.string(), shown(key), shown(config.at(key).dump()));
  };
  const auto is = [&](const char* key, const Json& value) { return !config.contains(key) || config[key] == value; };
  if (!is("peft_type", "LORA")) throw refuse_key("peft_type").because("only LoRA is computed").use("\"LORA\"");
  if (!is("bias", "none")) throw refuse_key("bias").because("adapters train no biases").use("\"none\"");
  const bool is_in_out = rules_of(base.family).weight_layout == WeightLayout::in_out;
  if (!is("fan_in_fan_out", is_in_out))
    throw refuse_key("fan_in_fan_out")
        .because("{} stores its weights otherwise", name_of(base.family))
        .use("{}", is_in_out);
  if (const auto begin = config.find("init_lora_weights"); begin != config.end() && begin->is_string()) {
    if (std::ranges::count(kPlainBeginnings, begin->get<std::string>()) == 0)
      throw refuse_key("init_lora_weights")
          .because("it changes the model's own weights")
          .hint("Convert the adapter with save_pretrained(path_initial_model_for_weight_conversion=...) of PEFT");
  }
  for (const auto& [key, value] : config.items()) {
    if (is_nothing(value) || std::ranges::count(kReadKeys, key) > 0) continue;
    throw refuse_key(key).because("Tessera does not compute that").use("an adapter without it");
  }
  if (const Json blocks = config.value("layers_to_transform", Json()); !blocks.is_null()) {
    for (std::int64_t block = 0; block < base.layers; ++block) {
      if (blocks != block && (!blocks.is_array() || std::ranges::count(blocks, Json(block)) == 0))
        throw refuse_key("layers_to_transform")
            .because("each block needs the same adapters")
            .use("all blocks, or null");
    }
  }
  const auto number = [&](const char* key, double otherwise) {
    if (!config.contains(key) || config[key].is_null()) return otherwise;
    if (!config[key].is_number()) throw refuse_key(key).use("a number");
    return config[key].get<double>();
  };
  constexpr double peft_rank = 8, peft_alpha = 8;  // its defaults
  const double rank = number("r", peft_rank);
  if (!(rank >= 1 && rank <= 1 << 16 && rank == std::floor(rank)))
    throw refuse_key("r").use("a whole number from 1 on");
  adapters_.rank = static_cast<std::int64_t>(rank);
  adapters_.alpha = number("lora_alpha", peft_alpha);
  adapters_.dropout = number("lora_dropout", 0);
  if (!(adapters_.alpha > 0 && std::isfinite(adapters_.alpha))) throw refuse_key("lora_alpha").use("a number above 0");
  if (!(adapters_.dropout >= 0 && adapters_.dropout < 1))
    throw refuse_key("lora_dropout").use("0 up to, not including, 1");
  adapters_.is_rank_stabilized = config.contains("use_rslora") && config["use_rslora"] == true;
}

void PeftFolder::find_tensors(const Architecture& base) {
  Architecture all = with_all(base, adapters_);
  std::map<std::string, std::string> known;  // our names by those without prefixes
  for (const ParameterTensor& tensor : parameter_tensors(all)) {
    if (tensor.is_adapter) known.emplace(without_prefix(tensor.name), tensor.name);
  }
  for (const SafetensorsEntry& entry : file_.entries()) {
    std::string_view name = entry.name;
    if (name.starts_with(kPeftPrefix)) name.remove_prefix(kPeftPrefix.size());
    const auto place = known.find(std::string(bare_name(name)));
    if (place == known.end()) {
      throw refusal("{} has a tensor {}, which belongs to no linear in a block of this model, or is none of LoRA's",
                    file_.path().string(), shown(entry.name))
          .use("an adapter of {} alone", fmt::join(short_names(all, all.adapters.targets), ", "));
    }
    names_.emplace(place->second, entry.name);
  }
  const auto is_adapted = [&](const std::string& module) {
    return std::ranges::any_of(names_, [&](const auto& name) {
      return name.first.find("." + module + "." + std::string(kAdapterA.substr(0, 5))) != std::string::npos;
    });
  };
  for (const std::string& module : all.adapters.targets)
    if (is_adapted(module)) adapters_.targets.push_back(module);
  if (adapters_.targets.empty()) throw refusal("{} has no tensor", file_.path().string());
  Architecture own = base;
  own.adapters = adapters_;
  for (const ParameterTensor& tensor : parameter_tensors(own)) {
    if (!tensor.is_adapter) continue;
    const auto name = names_.find(tensor.name);
    if (name == names_.end()) {
      throw refusal("{} has no tensor {}{}, but each block needs the same adapters", file_.path().string(), kPeftPrefix,
                    tensor.name);
    }
    const SafetensorsEntry& entry = *file_.find(name->second);
    if (entry.shape != tensor.shape || !entry.dtype) {
      throw refusal("tensor {} of {} does not fit the model", shown(entry.name), file_.path().string())
          .use("shape [{}, {}] in F32, BF16 or F16", tensor.shape[0], tensor.shape[1]);
    }
  }
}

void PeftFolder::read(const ParameterTensor& tensor, std::int64_t first, std::span<float> out) const {
  const std::string& name = names_.at(tensor.name);
  file_.read_slice(name, first, out);
  if (std::ranges::all_of(out, [](float value) { return std::isfinite(value); })) return;
  throw refusal("tensor {} of {} holds numbers that are not finite", shown(name), file_.path().string());
}

std::string peft_name(std::string_view tensor, bool sees_pictures) {
  if (!sees_pictures) return fmt::format("{}{}", kPeftPrefix, tensor);
  return fmt::format("{}model.language_model.{}", kPeftPrefix, without_prefix(tensor));
}

nlohmann::ordered_json peft_config(const Architecture& architecture, const std::string& base, bool sees_pictures) {
  const Adapters& adapters = architecture.adapters;
  Json targets = short_names(architecture, adapters.targets);
  if (sees_pictures)  // what reads pictures has modules of the same names
    targets = fmt::format(R"(.*\.language_model\..*\.({}))", fmt::join(targets.get<std::vector<std::string>>(), "|"));
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base},
          {"inference_mode", true},
          {"r", adapters.rank},
          {"lora_alpha", adapters.alpha},
          {"lora_dropout", adapters.dropout},
          {"target_modules", targets},
          {"fan_in_fan_out", rules_of(architecture.family).weight_layout == WeightLayout::in_out},
          {"bias", "none"},
          {"use_rslora", adapters.is_rank_stabilized},
          {"init_lora_weights", true},
          {"modules_to_save", nullptr}};
}

}  // namespace tessera
