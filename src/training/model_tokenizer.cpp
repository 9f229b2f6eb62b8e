#include "tessera/training/model_tokenizer.hpp"

#include "tessera/base/error.hpp"
#include "tessera/files/path_exists.hpp"

namespace tessera {

namespace {

constexpr const char* kBytes = "bytes";
constexpr std::int64_t kByteVocabulary = 256;

std::unique_ptr<Tokenizer> named_tokenizer(const std::string& name) {
  return name == kBytes ? make_byte_tokenizer() : open_tokenizer(name);
}

/// Returns data.tokenizer of the run that wrote a checkpoint; empty if it is not known or gone.
std::string tokenizer_of_run(const CheckpointReader& checkpoint) {
  for (const auto& [name, value] : checkpoint.manifest().options) {
    if (name == "data.tokenizer" && (value == kBytes || path_exists(value))) return value;
  }
  return {};
}

bool has_tokenizer(const std::filesystem::path& folder) {
  return !folder.empty() && (path_exists(folder / "tokenizer.json") || path_exists(folder / "vocab.json"));
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of(const ModelWeights& weights) {
  if (weights.checkpoint() != nullptr) {
    if (const std::string name = tokenizer_of_run(*weights.checkpoint()); !name.empty()) return named_tokenizer(name);
  }
  if (const std::filesystem::path folder = weights.companions(); has_tokenizer(folder)) return open_tokenizer(folder);
  const std::int64_t vocab = weights.architecture().vocab;
  if (vocab == kByteVocabulary) return make_byte_tokenizer();
  throw UsageError(
      "{} has no tokenizer (neither tokenizer.json nor vocab.json is beside it, and its vocabulary of {} is not that "
      "of "
      "bytes): a folder with one",
      weights.name(), vocab);
}

}  // namespace tessera
