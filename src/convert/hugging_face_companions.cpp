#include "tessera/convert/hugging_face_companions.hpp"

#include <array>

#include "tessera/base/error.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face_json.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestFile = 1 << 30;
constexpr std::int64_t kLargestConfig = 16 << 20;

constexpr std::array kFiles{"config.json",
                            "generation_config.json",
                            "tokenizer.json",
                            "tokenizer.model",
                            "tokenizer_config.json",
                            "special_tokens_map.json",
                            "added_tokens.json",
                            "vocab.json",
                            "vocab.txt",
                            "merges.txt",
                            "chat_template.jinja",
                            "chat_template.json"};

constexpr std::array kDropouts{"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout"};

/// Keys of config.json that an export keeps as they were.
constexpr std::array kKeptKeys{"bos_token_id",          "eos_token_id",        "pad_token_id",
                               "unk_token_id",          "sep_token_id",        "initializer_range",
                               "tokenizer_class",       "use_cache",           "summary_type",
                               "summary_use_proj",      "summary_activation",  "summary_proj_to_labels",
                               "summary_first_dropout", "task_specific_params"};

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

}  // namespace

std::string dropouts_of(const std::filesystem::path& folder) {
  const std::filesystem::path kept = folder.empty() ? folder : companions_at(folder);
  if (kept.empty()) return {};
  const nlohmann::json config = read_json_object(kept / "config.json", kLargestConfig);
  std::string text;
  for (const char* key : kDropouts) {
    const auto value = config.find(key);
    if (value == config.end() || !value->is_number() || !(value->get<double>() > 0)) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, value->get<double>());
  }
  return text;
}

std::filesystem::path companions_at(const std::filesystem::path& path) {
  for (const auto& folder : {path / kCompanionFolder, path}) {
    if (is_file(folder / "config.json")) return folder;
  }
  return {};
}

std::filesystem::path companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  std::vector<std::filesystem::path> places{checkpoint / kCompanionFolder};
  std::error_code error;  // no current folder: no companions of the checkpoint
  const auto among = std::filesystem::absolute(checkpoint, error).lexically_normal().parent_path();
  if (among.filename() == "checkpoints") places.push_back(among.parent_path() / kCompanionFolder);
  for (const auto& [name, value] : manifest.options) {
    if (name == "model.from" && !value.empty()) places.emplace_back(value);
  }
  for (const auto& place : places) {
    if (auto found = companions_at(place); !found.empty()) return found;
  }
  return {};
}

std::vector<std::string> copy_companions(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::vector<std::string> names;
  if (from.empty()) return names;
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (error) throw IoError("cannot create folder {} ({})", to.string(), error.message());
  for (const char* name : kFiles) {
    if (!is_file(from / name)) continue;
    write_text_atomically(to / name, read_text_file(from / name, kLargestFile));
    names.emplace_back(name);
  }
  return names;
}

void restore_kept_keys(const std::filesystem::path& companions, nlohmann::ordered_json& config) {
  const nlohmann::json origin = read_json_object(companions / "config.json", kLargestConfig);
  for (const char* key : kKeptKeys) {
    if (origin.contains(key)) config[key] = origin[key];
  }
  for (const char* key : kDropouts) {  // a run without dropout says nothing about the folder's
    if (config.contains(key) && config[key] == 0.0 && origin.contains(key)) config[key] = origin[key];
  }
}

}  // namespace tessera
