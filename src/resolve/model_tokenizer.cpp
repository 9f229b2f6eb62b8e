#include "tessera/resolve/model_tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/text/choose_tokenizer.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kByteVocabulary = 256;

/// Returns an option of the run that wrote a checkpoint; empty if it is not known.
std::string option_of_run(const ModelWeights& weights, const std::string& name) {
  return weights.checkpoint() == nullptr ? "" : weights.checkpoint()->manifest().option(name);
}

/// Returns whether data.source is already tokens, whose files do not say which tokenizer made them.
bool is_tokens(const std::string& source) {
  Options options;
  options.data.source = source;
  return holds_tokens(options, "data.source");
}

/// Returns whether a run read text, by default as bytes. A corpus that is gone may have been tokens.
bool is_text(const std::string& source) try {
  return !source.empty() && source != "synthetic" && !is_tokens(source);
} catch (const Error&) {
  return false;
}

constexpr std::int64_t kLargestFile = 16 << 20;
constexpr const char* kModelFiles[] = {"config.json", "generation_config.json"};

/// Returns whether an id in a model's files has the same text in `used` as in `own`, the model's tokenizer. One that
/// cannot be read is no reason to doubt it.
bool means_same(std::int64_t id, const Tokenizer& used, const Tokenizer* own) try {
  if (id < 0 || id >= used.vocab()) return false;  // a model can have more ids than its tokenizer
  const auto token = static_cast<std::int32_t>(id);
  return own == nullptr || own->bytes_of(token) == used.bytes_of(token);
} catch (const UsageError&) {
  return false;
}

/// Returns those ids of a number, a list or null that mean the same; nothing for another value.
std::optional<std::set<std::int32_t>> ids_in(const nlohmann::json& value, const Tokenizer& used, const Tokenizer* own) {
  std::set<std::int32_t> ids;
  if (value.is_null()) return ids;
  for (const nlohmann::json& id : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!id.is_number_integer()) return std::nullopt;
    if (means_same(id.get<std::int64_t>(), used, own)) ids.insert(id.get<std::int32_t>());
  }
  return ids;
}

void add_ends(const std::filesystem::path& folder, const Tokenizer& used, const Tokenizer* own,
              std::set<std::int32_t>& ends) {
  for (const char* file : kModelFiles) {
    if (!path_exists(folder / file)) continue;
    const nlohmann::json json = read_json_object(folder / file, kLargestFile);
    const auto found = ids_in(json.value("eos_token_id", nlohmann::json()), used, own);
    if (!found)
      throw refusal("{}: eos_token_id is not a whole number, a list of them or null", (folder / file).string());
    ends.insert(found->begin(), found->end());
  }
}

}  // namespace

std::string tokenizer_name_of(const Options& options, const ModelWeights& weights) {
  if (!options.data.tokenizer.empty()) return options.data.tokenizer;
  if (std::string of_run = tokenizer_of_run(weights); !of_run.empty()) return of_run;
  const std::filesystem::path beside = weights.companions();
  if (!beside.empty() && has_tokenizer(beside)) return is_byte_tokenizer(beside) ? "bytes" : beside.string();
  const std::int64_t vocab = weights.architecture().vocab;
  if (vocab == kByteVocabulary) return "bytes";
  if (const std::string of_run = option_of_run(weights, "data.tokenizer"); !of_run.empty())
    throw refusal("{}: its run's data.tokenizer = {} is not there", weights.name(), of_run).hint("Give data.tokenizer");
  if (!beside.empty() && !foreign_tokenizer(beside).empty()) return beside.string();  // to be refused by name
  throw refusal("{} has no tokenizer", weights.name())
      .because("neither tokenizer.json nor vocab.json is next to it, and its vocabulary of {} is not that of bytes",
               vocab)
      .hint("Give data.tokenizer, bytes or a folder");
}

std::unique_ptr<Tokenizer> tokenizer_of(const Options& options, const ModelWeights& weights) {
  return open_named_tokenizer(tokenizer_name_of(options, weights));
}

std::string begin_for(const Options& options, const ModelWeights& weights) {
  if (options.is_given("data.begin") || weights.checkpoint() == nullptr) return options.data.begin;
  if (std::string of_run = option_of_run(weights, "data.begin"); !of_run.empty()) return of_run;
  const std::string source = option_of_run(weights, "data.source");  // of a version without that option
  return source.empty() || source.ends_with(".bin") ? "auto" : "none";
}

std::string chat_template_for(const Options& options, const ModelWeights& weights) {
  if (options.is_given("data.chat_template")) return options.data.chat_template;
  std::string of_run = option_of_run(weights, "data.chat_template");
  const std::filesystem::path kept = weights.checkpoint() != nullptr ? weights.companions() : "";
  if (of_run.empty() || (!kept.empty() && path_exists(tokenizer_in(kept) / kChatTemplate))) return "";
  if (path_exists(of_run)) return of_run;
  throw refusal("its run's data.chat_template = {} is not there", of_run).use("data.chat_template = FILE");
}

std::string tokenizer_of_run(const ModelWeights& weights) {
  if (weights.checkpoint() == nullptr) return {};
  std::string of_run = option_of_run(weights, "data.tokenizer");
  if (of_run == "bytes") return of_run;
  // The run's own copy comes first, because the files that it read may have changed since.
  const std::filesystem::path kept = weights.companions();
  if (!kept.empty() && has_tokenizer(kept)) return kept.string();
  if (!of_run.empty()) return path_exists(of_run) ? of_run : "";
  const bool has_bytes = weights.architecture().vocab == kByteVocabulary;
  return has_bytes || is_text(option_of_run(weights, "data.source")) ? "bytes" : "";  // a run's default
}

std::vector<std::int32_t> ends_of_text(const Tokenizer& tokenizer, const std::string& name,
                                       const std::filesystem::path& companions) {
  std::set<std::int32_t> ends;
  if (name == "bytes") return {};
  if (const auto end = tokenizer.end_of_text()) ends.insert(*end);
  const std::filesystem::path beside = has_tokenizer(name) ? name : std::filesystem::path(name).parent_path().string();
  add_ends(tokenizer_in(beside), tokenizer, nullptr, ends);
  const bool is_one = companions.empty() || companions == beside;
  if (!companions.empty())
    add_ends(companions, tokenizer, (is_one ? nullptr : readable_tokenizer(companions)).get(), ends);
  return {ends.begin(), ends.end()};
}

void restate_token_ids(const std::filesystem::path& kept, const std::filesystem::path& from, const std::string& name) {
  const auto own = readable_tokenizer(from);
  const auto used = name == "bytes" ? make_byte_tokenizer() : readable_tokenizer(name);
  if (own == nullptr || used == nullptr || own->hash() == used->hash()) return;
  const std::vector<std::int32_t> ends = ends_of_text(*used, name, {});
  for (const char* file : kModelFiles) {
    if (!path_exists(kept / file)) continue;
    nlohmann::json json = read_json_object(kept / file, kLargestFile);
    json.erase("tokenizer_class");
    json.emplace("eos_token_id", nullptr);
    for (auto& [key, value] : json.items()) {
      if (!key.ends_with("_token_id")) continue;
      std::set<std::int32_t> ids = ids_in(value, *used, own.get()).value_or(std::set<std::int32_t>());
      if (key == "eos_token_id") ids.insert(ends.begin(), ends.end());
      value = ids.empty() ? nlohmann::json() : ids.size() == 1 ? nlohmann::json(*ids.begin()) : nlohmann::json(ids);
    }
    write_text_atomically(kept / file, json.dump(2) + "\n");
  }
}

std::unique_ptr<Tokenizer> tokenizer_of_training(const Options& options, std::int64_t vocab) {
  const bool is_open = options.data.tokenizer.empty() && options.model.from.empty();
  if (is_open && is_tokens(options.data.source) && vocab != kByteVocabulary) {
    throw refusal("train.sample_every = {} does not work with data.source = {}", options.train.sample_every,
                  options.data.source)
        .because("its tokens are of an unknown tokenizer")
        .hint("Give data.tokenizer, bytes or a folder");
  }
  return open_named_tokenizer(tokenizer_name(options));
}

}  // namespace tessera
