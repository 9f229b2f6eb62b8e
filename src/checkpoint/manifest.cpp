#include "tessera/checkpoint/manifest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/file_records.hpp"
#include "checkpoint/manifest_fields.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face_json.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestManifest = 1LL << 30;
constexpr std::string_view kChecksumKey = "\"checksum\": \"";
constexpr std::size_t kHexDigits = 16;

constexpr const char* kAdapterFormat = "tessera adapters";

/// Weights and adapters alone have another name than a checkpoint, so that versions that do not know them refuse them.
const char* format_of(StateContent content) {
  return content == StateContent::full ? "tessera checkpoint" : "tessera weights";
}

Json adapters_json(const Adapters& adapters) {
  return {{"rank", adapters.rank},
          {"alpha", adapters.alpha},
          {"dropout", adapters.dropout},
          {"rank_stabilized", adapters.is_rank_stabilized},
          {"modules", adapters.targets}};
}

Adapters read_adapters(const Fields& fields) {
  Adapters adapters{fields.count("rank"), fields.number("alpha"), fields.number("dropout"),
                    fields.flag("rank_stabilized")};
  if (adapters.rank < 1 || !(adapters.dropout >= 0 && adapters.dropout < 1))
    fields.refuse("rank, dropout", "a rank from 1 on, and a dropout from 0 to 1, are needed");
  for (const auto& module : fields.list("modules")) {
    if (!module.is_string()) fields.refuse("modules", "names are needed");
    adapters.targets.push_back(module.get<std::string>());
  }
  return adapters;
}

Json texts_json(const NamedTexts& texts) {
  Json json = Json::object();
  for (const auto& [name, value] : texts) json[name] = value;
  return json;
}

/// Returns the global batch of a run's first step where the manifest does not tell: that of all steps, or their mean if
/// an older version changed it.
std::int64_t mean_batch(std::int64_t step, const DataPosition& data) {
  return step == 0 ? data.global_batch : std::max<std::int64_t>(1, data.next_sample / step);
}

Json data_json(std::int64_t step, const DataPosition& data) {
  if (!data.known) return nullptr;
  Json json = {{"fingerprint", data.fingerprint},   {"order", data.order},         {"sequence", data.sequence},
               {"global_batch", data.global_batch}, {"data_seed", data.data_seed}, {"run_seed", data.run_seed},
               {"next_sample", data.next_sample}};
  if (data.first_batch > 0 && data.first_batch != mean_batch(step, data)) json["first_batch"] = data.first_batch;
  return json;
}

/// A loss that is not finite becomes null.
Json evaluation_json(const NamedLosses& evaluation) {
  Json json = Json::array();
  for (const auto& [set, loss] : evaluation) json.push_back({{"set", set}, {"loss", loss}});
  return json;
}

NamedLosses read_evaluation(const Fields& fields) {
  NamedLosses evaluation;
  if (!fields.has("evaluation")) return evaluation;  // of a version without it, or a step without
  for (const auto& entry : fields.list("evaluation")) {
    const Fields set = fields.of(entry, "evaluation");
    evaluation.emplace_back(set.text("set"),
                            set.is_null("loss") ? std::numeric_limits<double>::quiet_NaN() : set.number("loss"));
  }
  return evaluation;
}

/// Finds the text's last 16 hexadecimal digits after the checksum's key.
std::size_t place_of_checksum(const std::string& text) {
  const std::size_t key = text.rfind(kChecksumKey);
  if (key == std::string::npos || key + kChecksumKey.size() + kHexDigits > text.size()) return std::string::npos;
  return key + kChecksumKey.size();
}

std::string checksum_of_text(std::string text, std::size_t place) {
  text.replace(place, kHexDigits, std::string(kHexDigits, '0'));
  return hex_of(XXH3_64bits(text.data(), text.size()));
}

Manifest parse_manifest(const nlohmann::json& json, const std::filesystem::path& path) {
  const Fields fields(json, path.string());
  Manifest manifest;
  const std::string format = fields.text("format");
  if (format == format_of(StateContent::weights)) manifest.content = StateContent::weights;
  if (format != format_of(manifest.content) && format != kAdapterFormat)
    fields.refuse("format", "\"tessera checkpoint\", \"tessera weights\" or \"tessera adapters\" is needed");
  manifest.step = fields.count("step");
  const Fields grid = fields.object("grid");
  manifest.grid = {grid.count("world"), grid.count("shard_group"), grid.count("replicas"), grid.count("ranks_per_node"),
                   grid.text("strategy")};
  manifest.architecture = fields.architecture("model", path);
  if (format == kAdapterFormat) manifest.architecture.adapters = read_adapters(fields.object("lora"));
  for (const auto& tensor : fields.list("tensors")) manifest.tensors.push_back(Fields::tensor(tensor, fields));
  if (!fields.is_null("data")) {
    const Fields data = fields.object("data");
    manifest.data = {true,
                     data.text("fingerprint"),
                     data.text("order"),
                     data.count("sequence"),
                     data.count("global_batch"),
                     data.count("data_seed"),
                     data.count("run_seed"),
                     data.count("next_sample")};
    manifest.data.first_batch =
        data.has("first_batch") ? data.count("first_batch") : mean_batch(manifest.step, manifest.data);
  }
  const Fields optimizer = fields.object("optimizer");
  manifest.optimizer = {optimizer.count("adam_step"), optimizer.count("good_steps"), optimizer.count("skipped_steps"),
                        optimizer.number("loss_scale")};
  if (optimizer.has("name")) {
    const auto name = read_choice<OptimizerName>(optimizer.text("name"));
    if (!name) optimizer.refuse("name", "an optimizer of this program is needed");
    manifest.updated_by = *name;
  }
  if (optimizer.has("moments")) {
    const auto type = read_choice<StateType>(optimizer.text("moments"));
    if (!type) optimizer.refuse("moments", "fp32 or bf16 is needed");
    for (TensorRecord& tensor : manifest.tensors) tensor.moments = dtype_of(*type);
  }
  manifest.checked = json.contains("checked") && json["checked"] == true;
  manifest.evaluation = read_evaluation(fields);
  manifest.options = fields.texts("options");
  manifest.provenance = fields.texts("provenance");
  for (const auto& file : fields.list("files"))
    manifest.files.push_back(read_file_record(fields.of(file, "files"), manifest.content));
  check_runs(manifest, path.string());
  return manifest;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  const Adapters& adapters = manifest.architecture.adapters;
  Json json = {{"format", adapters.on() ? kAdapterFormat : format_of(manifest.content)},
               {"schema", kCheckpointSchema},
               {"step", manifest.step}};
  json["grid"] = {{"world", manifest.grid.world},
                  {"shard_group", manifest.grid.shard_group},
                  {"replicas", manifest.grid.replicas},
                  {"ranks_per_node", manifest.grid.ranks_per_node},
                  {"strategy", manifest.grid.strategy}};
  json["model"] = config_of(manifest.architecture);
  if (adapters.on()) json["lora"] = adapters_json(adapters);
  Json tensors = Json::array();
  for (const TensorRecord& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
    if (tensor.states == TensorRecord::all_states()) continue;
    for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
      if (tensor.states[kind]) tensors.back()["states"].push_back(name_of(static_cast<StateKind>(kind)));
    }
  }
  json["tensors"] = tensors;
  json["data"] = data_json(manifest.step, manifest.data);
  json["optimizer"] = {{"adam_step", manifest.optimizer.adam_step},
                       {"good_steps", manifest.optimizer.good_steps},
                       {"skipped_steps", manifest.optimizer.skipped_steps},
                       {"loss_scale", manifest.optimizer.loss_scale}};
  if (manifest.updated_by != OptimizerName::adamw) json["optimizer"]["name"] = name_of(manifest.updated_by);
  if (const DType moments = manifest.moments(); moments != DType::fp32) json["optimizer"]["moments"] = name_of(moments);
  if (manifest.checked) json["checked"] = true;
  if (!manifest.evaluation.empty()) json["evaluation"] = evaluation_json(manifest.evaluation);
  json["options"] = texts_json(manifest.options);
  json["provenance"] = texts_json(manifest.provenance);
  // One line per key, with lists of files, runs and blocks in long lines: for readability and for size.
  std::string text = "{\n";
  for (const auto& [key, value] : json.items())
    text += fmt::format(" {}: {},\n", Json(key).dump(), value.dump(-1, ' ', false, Json::error_handler_t::replace));
  text += " \"files\": [";
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    text += fmt::format("{}\n  {}", i == 0 ? "" : ",", file_json(manifest.files[i]).dump());
  text += fmt::format("\n ],\n {}{}\"\n}}\n", kChecksumKey, std::string(kHexDigits, '0'));
  const std::size_t place = place_of_checksum(text);
  text.replace(place, kHexDigits, checksum_of_text(text, place));
  return text;
}

std::string read_manifest_text(const std::filesystem::path& folder) try {
  if (const std::filesystem::path target = missing_target(folder); !target.empty()) {
    throw UnreadableError("{} is a link to {}, which does not exist", folder.string(), target.string());
  }
  return read_text_file(folder / std::string(kManifestName), kLargestManifest);
} catch (const UsageError& error) {
  throw IoError("{} is not a complete checkpoint: {}", folder.string(), error.what());
}

Manifest manifest_from(const std::string& text, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / std::string(kManifestName);
  nlohmann::json json;
  try {
    json = parse_json(text);
  } catch (const UsageError& error) {
    throw IoError("{} is not a complete checkpoint: {}", folder.string(), error.what());
  } catch (const nlohmann::json::exception& error) {
    throw IoError("{} is damaged ({})", path.string(), error.what());
  }
  const nlohmann::json schema = json.is_object() && json.contains("schema") ? json["schema"] : nlohmann::json();
  const auto refuse_schema = [&](const char* why) {
    throw IoError("{} has schema {}, {}, but this program reads schema {}", path.string(), schema.dump(), why,
                  kCheckpointSchema);
  };
  // Another schema may keep its checksum elsewhere.
  if (schema.is_number_integer() && schema != kCheckpointSchema)
    refuse_schema(schema > kCheckpointSchema ? "which a newer program wrote" : "which is unknown");
  const std::size_t place = place_of_checksum(text);
  if (place == std::string::npos || text.substr(place, kHexDigits) != checksum_of_text(text, place))
    throw IoError("{} is damaged (its checksum is wrong)", path.string());
  if (schema != kCheckpointSchema) refuse_schema("which is unknown");
  try {
    return parse_manifest(json, path);
  } catch (const UsageError& error) {
    throw IoError("{} is damaged: {}", path.string(), error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& folder) {
  return manifest_from(read_manifest_text(folder), folder);
}

}  // namespace tessera
