#include "tessera/resolve/model_tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/text/choose_tokenizer.hpp"
#include "tessera/text/corpus.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kByteVocabulary = 256;

/// Returns an option of the run that wrote a checkpoint; empty if it is not known.
std::string option_of_run(const ModelWeights& weights, const std::string& name) {
  if (weights.checkpoint() == nullptr) return {};
  for (const auto& [key, value] : weights.checkpoint()->manifest().options) {
    if (key == name) return value;
  }
  return {};
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

/// Adds the ids of eos_token_id that the tokenizer has: a model can have more ids than it.
void add_ends(const std::filesystem::path& config, const Tokenizer& tokenizer, std::set<std::int32_t>& ends) {
  constexpr std::int64_t largest_file = 16 << 20;
  if (!path_exists(config)) return;
  const nlohmann::json json = read_json_object(config, largest_file);
  const auto found = json.find("eos_token_id");
  if (found == json.end() || found->is_null()) return;
  for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (!id.is_number_integer())
      throw refusal("{}: eos_token_id is not a whole number, a list of them or null", config.string());
    if (id >= 0 && id < tokenizer.vocab()) ends.insert(id.get<std::int32_t>());
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
  for (const std::filesystem::path& folder : {beside, companions}) {
    for (const char* file : {"config.json", "generation_config.json"}) {
      if (!folder.empty()) add_ends(folder / file, tokenizer, ends);
    }
  }
  return {ends.begin(), ends.end()};
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
