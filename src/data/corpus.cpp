#include "tessera/data/corpus.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

std::unique_ptr<TokenSource> open_source(const DataOptions& options, std::int64_t vocab) {
  if (options.source == "synthetic") return synthetic_text(options.synthetic_tokens, vocab, options.seed);
  const std::filesystem::path path = options.source;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw UsageError(
        "data.source = {}: no such file or folder: synthetic, a folder of .txt files, or a .bin file of tokens",
        options.source);
  }
  if (std::filesystem::is_directory(path, error)) return open_text(path);
  const auto kind = path.extension();
  if (kind == ".bin") return open_token_file(path);
  if (kind == ".txt" || kind == ".json" || kind == ".jsonl") return open_text(path);
  throw UsageError(
      "data.source = {}: a file of unknown kind: synthetic, a folder of .txt files, or a .bin file of tokens",
      options.source);
}

}  // namespace

std::unique_ptr<TokenSource> open_corpus(const DataOptions& options, std::int64_t vocab) {
  auto source = open_source(options, vocab);
  check_vocabulary(*source, vocab);
  return source;
}

}  // namespace tessera
