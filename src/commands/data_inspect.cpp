#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/text/choose_tokenizer.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/text/inspect.hpp"
#include "tessera/text/prepared.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kLargestInfo = std::int64_t{1} << 26;

std::unique_ptr<Tokenizer> given_tokenizer(const Options& options) {
  if (options.data.tokenizer.empty() && options.model.from.empty()) return nullptr;
  return open_named_tokenizer(tokenizer_name(options));
}

/// Returns the tokenizer that a prepared corpus was made with; nothing, with a message, if it has changed since.
std::unique_ptr<Tokenizer> tokenizer_of(const fs::path& info_file, const Log& log) {
  const nlohmann::json info = read_json_object(info_file, kLargestInfo);
  const auto text = [&](const char* key) {
    return info.contains(key) && info[key].is_string() ? std::string(info[key]) : "";
  };
  const std::string name = text("tokenizer_path");
  if (name.empty())
    throw refusal("{} does not describe a prepared corpus", info_file.string())
        .because("it has no tokenizer_path")
        .hint("Prepare it again");
  try {
    auto tokenizer = open_named_tokenizer(name);
    if (fmt::format("{:016x}", tokenizer->hash()) == text("tokenizer_hash")) return tokenizer;
    log.warn(fmt::format("{} is another tokenizer than the corpus was prepared with, so no samples are shown", name));
  } catch (const Error& error) {
    log.warn(fmt::format("no samples are shown: {}", error.what()));
  }
  return nullptr;
}

/// Prints which places of its texts a prepared corpus lacks.
void print_bad_places(const fs::path& info_file, const Log& log) {
  const nlohmann::json info = read_json_object(info_file, kLargestInfo);
  const std::int64_t count = info.value("bad_places", std::int64_t{0});
  if (count > 0) log.info(describe_bad_places(count, info.value("first_bad_places", std::vector<std::string>{})));
}

/// `file` holds the tokens; it is empty if they are in several.
void print_tokens(const TokenSource& source, const fs::path& file, const Tokenizer* tokenizer, const Log& log) {
  std::optional<DocumentIndex> index;
  if (!file.empty() && path_exists(index_beside(file))) index.emplace(index_beside(file), source.size());
  log.info(inspect_tokens(source, index ? &*index : nullptr, tokenizer));
}

void inspect_folder(const fs::path& folder, const Options& options, const Log& log) {
  const fs::path tokens = folder / kPreparedTokens;
  auto tokenizer = given_tokenizer(options);
  if (tokenizer == nullptr) tokenizer = tokenizer_of(folder / kPreparedInfo, log);
  log.info(fmt::format("file       {}", tokens.string()));
  print_tokens(*with_mask(open_token_file(tokens), tokens), tokens, tokenizer.get(), log);
  print_bad_places(folder / kPreparedInfo, log);
}

/// Inspects data.source, a single one.
void inspect_source(const Options& options, const Log& log) {
  if (const std::string names = left_out(options, "data.source"); !names.empty()) log.info("left out   " + names);
  if (holds_tokens(options, "data.source")) {
    const auto tokenizer = given_tokenizer(options);
    return print_tokens(*open_corpus(options, kAnyVocabulary), {}, tokenizer.get(), log);
  }
  CorpusSettings settings;
  settings.threads = options.run.threads > 0 ? static_cast<int>(options.run.threads) : allowed_cores();
  settings.say = [&](const std::string& line) { log.info(line); };
  inspect_folder(prepare_in_cache(options, "data.source", settings), options, log);
}

}  // namespace

int run_data_inspect(const fs::path& path, const Options& options) {
  const Log log(0, 1);
  std::error_code error;
  if (fs::exists(path / kPreparedInfo, error) && fs::exists(path / kPreparedTokens, error)) {
    inspect_folder(path, options, log);
  } else if (path.extension() == ".bin" && fs::is_regular_file(path, error)) {
    const auto tokenizer = given_tokenizer(options);
    const std::int64_t vocab = tokenizer != nullptr ? tokenizer->vocab() : options.model.vocab;
    print_tokens(*open_tokens(path, {options.data.token_bytes, vocab}), path, tokenizer.get(), log);
  } else {
    if (const std::string shares = describe_shares(training_sources(options.data.source)); !shares.empty())
      log.info("mixture    " + shares);
    for (const Options& one : each_source(options)) inspect_source(one, log);
  }
  return 0;
}

}  // namespace tessera
