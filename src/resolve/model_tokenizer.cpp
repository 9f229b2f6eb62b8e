#include "tessera/resolve/model_tokenizer.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
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

}  // namespace

std::string tokenizer_name_of(const Options& options, const ModelWeights& weights) {
  if (!options.data.tokenizer.empty()) return options.data.tokenizer;
  if (std::string of_run = tokenizer_of_run(weights); !of_run.empty()) return of_run;
  const std::filesystem::path beside = weights.companions();
  if (!beside.empty() && has_tokenizer(beside)) return beside.string();
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
