#include "tessera/convert/hugging_face_companions.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face_json.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestFile = 1 << 30;
constexpr std::int64_t kLargestConfig = 16 << 20;
constexpr std::int64_t kBytes = 256;

constexpr std::array kModelFiles{"config.json", "generation_config.json"};

/// Files of which a reader takes the first that it finds, so that a folder must not mix those of two tokenizers.
constexpr std::array kVocabularyFiles{"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt"};
constexpr std::array kTokenizerFiles{"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                     kChatTemplate, "chat_template.json"};

constexpr const char* kTemplates = "additional_chat_templates";

constexpr std::array kDropouts{"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout"};

/// Keys of generation_config.json with the number that changes nothing. Null and what is empty change nothing either.
// clang-format off
constexpr std::pair<const char*, double> kGenerationKeys[] = {
    {"repetition_penalty", 1}, {"no_repeat_ngram_size", 0}, {"min_length", 0}, {"min_new_tokens", 0}, {"num_beams", 1},
    {"suppress_tokens", -1}, {"begin_suppress_tokens", -1}, {"bad_words_ids", -1}, {"sequence_bias", -1},
    {"forced_bos_token_id", -1}, {"forced_eos_token_id", -1}, {"stop_strings", -1}};
// clang-format on

constexpr std::pair<DType, const char*> kTorchNames[] = {
    {DType::fp32, "float32"}, {DType::bf16, "bfloat16"}, {DType::fp16, "float16"}};

/// Keys of config.json that an export keeps unchanged.
constexpr std::array kKeptKeys{"bos_token_id",          "eos_token_id",        "pad_token_id",
                               "unk_token_id",          "sep_token_id",        "initializer_range",
                               "tokenizer_class",       "use_cache",           "summary_type",
                               "summary_use_proj",      "summary_activation",  "summary_proj_to_labels",
                               "summary_first_dropout", "task_specific_params"};

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool holds_companions(const std::filesystem::path& folder) {
  const auto is_there = [&](const char* name) { return is_file(folder / name); };
  return is_there("config.json") || tokenizer_in(folder) != folder || std::ranges::any_of(kVocabularyFiles, is_there);
}

/// Returns the folder in which a checkpoint's run kept companions; empty if there is none.
std::filesystem::path kept_of(const std::filesystem::path& checkpoint) {
  std::vector<std::filesystem::path> places{checkpoint};
  std::error_code error;  // no current folder: no companions of the checkpoint
  const auto among = std::filesystem::absolute(checkpoint, error).lexically_normal().parent_path();
  if (among.filename() == "checkpoints") places.push_back(among.parent_path());
  for (const auto& place : places) {
    if (holds_companions(place / kCompanionFolder)) return place / kCompanionFolder;
  }
  return {};
}

/// Copies those files of `from` that exist.
template <class Names>
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, const Names& names) {
  for (const char* name : names) {
    if (is_file(from / name)) write_text_atomically(to / name, read_text_file(from / name, kLargestFile));
  }
}

/// Copies the files of the tokenizer at `path`, a folder or the file that is read.
void copy_tokenizer(const std::filesystem::path& path, const std::filesystem::path& to) {
  const std::filesystem::path folder = is_file(path) ? path.parent_path() : path, name = path.filename();
  if (folder == path) {
    copy_files(folder, to, kVocabularyFiles);
  } else if (name == "vocab.json" || name == "merges.txt") {
    copy_files(folder, to, std::array{"vocab.json", "merges.txt"});
  } else {
    write_text_atomically(to / "tokenizer.json", read_text_file(path, kLargestFile));
  }
  copy_files(folder, to, kTokenizerFiles);
  std::error_code error;
  for (const std::string& file : names_in(folder / kTemplates, error)) {
    make_folder(to / kTemplates);
    copy_files(folder / kTemplates, to / kTemplates, std::array{file.c_str()});
  }
}

/// Transformers 5 writes dtype, older ones torch_dtype.
std::optional<DType> dtype_in(const nlohmann::json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    for (const auto& [dtype, name] : kTorchNames) {
      if (config.contains(key) && config[key] == name) return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace

const char* torch_name_of(DType dtype) {
  return std::ranges::find(kTorchNames, dtype, [](auto& row) { return row.first; })->second;
}

std::optional<DType> dtype_of_origin(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  const std::filesystem::path folder = companions_of(checkpoint, manifest);
  if (folder.empty() || !is_file(folder / "config.json")) return std::nullopt;
  return dtype_in(read_json_object(folder / "config.json", kLargestConfig));
}

void keep_dtype(const std::filesystem::path& folder, DType dtype) {
  const std::filesystem::path path = folder / "config.json";
  if (!is_file(path)) return;
  nlohmann::json config = read_json_object(path, kLargestConfig);
  if (dtype_in(config) == dtype) return;
  config.erase("dtype");
  config["torch_dtype"] = torch_name_of(dtype);
  write_text_atomically(path, config.dump(2) + "\n");
}

std::string dropouts_of(const std::filesystem::path& folder) {
  const std::filesystem::path kept = folder.empty() ? folder : companions_at(folder);
  if (kept.empty() || !is_file(kept / "config.json")) return {};
  const nlohmann::json config = read_json_object(kept / "config.json", kLargestConfig);
  std::string text;
  for (const char* key : kDropouts) {
    const auto value = config.find(key);
    if (value == config.end() || !value->is_number() || !(value->get<double>() > 0)) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, value->get<double>());
  }
  return text;
}

std::string generation_left_out(const std::filesystem::path& companions) {
  const std::filesystem::path file = companions / "generation_config.json";
  if (companions.empty() || !is_file(file)) return {};
  const nlohmann::json config = read_json_object(file, kLargestConfig);
  std::string text;
  for (const auto& [key, usual] : kGenerationKeys) {
    const auto value = config.find(key);
    if (value == config.end() || value->empty() || *value == usual) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, shown(value->dump()));
  }
  return text;
}

std::filesystem::path companions_at(const std::filesystem::path& path) {
  if (holds_companions(path / kCompanionFolder)) return path / kCompanionFolder;
  return is_file(path / "config.json") ? path : std::filesystem::path();
}

std::filesystem::path companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  if (auto kept = kept_of(checkpoint); !kept.empty()) return kept;
  const std::string from = manifest.option("model.from");
  return from.empty() ? std::filesystem::path() : companions_at(from);
}

bool base_sees_pictures(const std::filesystem::path& checkpoint, const Manifest& manifest) {
  // A run, whose companions may tell of pictures, holds the text model alone.
  const std::filesystem::path base = manifest.option("model.from");
  const std::filesystem::path folder = path_exists(base) ? base : companions_of(checkpoint, manifest);
  if (folder.empty() || !is_file(folder / "config.json")) return false;
  return read_json_object(folder / "config.json", kLargestConfig).contains("text_config");
}

void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& tokenizer) {
  std::error_code unseen;
  const bool is_named = !tokenizer.empty() && tokenizer != "bytes" && std::filesystem::exists(tokenizer, unseen);
  if (from.empty() && !is_named) return;
  make_folder(to);
  if (!from.empty()) copy_files(from, to, kModelFiles);
  if (!is_named && !tokenizer.empty()) return;
  const std::filesystem::path given = is_named ? std::filesystem::path(tokenizer) : from;
  const std::filesystem::path path = is_file(given) ? given : tokenizer_in(given);
  if (path == from && !is_named) return copy_tokenizer(from, to);
  make_folder(to / kNamedTokenizer);
  copy_tokenizer(path, to / kNamedTokenizer);
  copy_files(is_file(path) ? path.parent_path() : path, to / kNamedTokenizer, std::array{"config.json"});
}

void keep_chat_template(const std::filesystem::path& companions, const std::filesystem::path& file) {
  const std::filesystem::path folder = tokenizer_in(companions), config_file = folder / "tokenizer_config.json";
  if (!has_tokenizer(folder)) return;
  write_text_atomically(folder / kChatTemplate, read_text_file(file, kLargestFile));
  std::error_code ignored;
  std::filesystem::remove_all(folder / kTemplates, ignored);
  if (!is_file(config_file)) return;
  nlohmann::json config = read_json_object(config_file, kLargestConfig);
  if (config.erase("chat_template") > 0) write_text_atomically(config_file, config.dump(2) + "\n");
}

std::filesystem::path copy_companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest,
                                         const std::filesystem::path& to) {
  const std::filesystem::path kept = kept_of(checkpoint), from = companions_of(checkpoint, manifest);
  copy_companions(from, to, kept.empty() ? manifest.option("data.tokenizer") : "");
  if (const auto named = tokenizer_in(to); named != to) copy_tokenizer(named, to);
  return !from.empty() && is_file(from / "config.json") ? from : std::filesystem::path();
}

bool finish_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path named = tokenizer_in(folder), file = folder / "tokenizer_config.json";
  if (named == folder) return true;
  const auto used = readable_tokenizer(folder);
  std::error_code error;
  std::filesystem::remove_all(named, error);
  if (error) throw IoError("cannot remove {} ({})", named.string(), error.message());
  const auto is_same = [&] {
    const auto read = readable_tokenizer(folder);
    return used == nullptr || (read != nullptr && read->hash() == used->hash());
  };
  if (is_same()) return true;
  nlohmann::json config = is_file(file) ? read_json_object(file, kLargestConfig) : nlohmann::json::object();
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  write_text_atomically(file, config.dump(2) + "\n");
  return is_same();
}

bool add_byte_tokenizer(const Manifest& manifest, const std::filesystem::path& folder) {
  const std::string tokenizer = manifest.option("data.tokenizer");
  const bool is_bytes = tokenizer == "bytes" || (tokenizer.empty() && manifest.architecture.vocab == kBytes);
  const bool has_another = std::ranges::any_of(kVocabularyFiles, [&](auto* name) { return is_file(folder / name); });
  if (!manifest.data.known || !is_bytes || has_another) return false;
  write_text_atomically(folder / "tokenizer.json", byte_tokenizer_json());
  const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                         {"clean_up_tokenization_spaces", false}};
  write_text_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
  return true;
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
