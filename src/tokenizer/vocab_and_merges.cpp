// GPT-2's files from before tokenizer.json.

#include <nlohmann/json.hpp>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/json_at.hpp"
#include "tokenizer/spellings.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestVocabulary = std::int64_t{256} << 20;
constexpr const char* kEndOfText = "<|endoftext|>";

/// Other families have files of these names too, with another pattern.
void require_gpt2(const std::filesystem::path& folder) {
  if (path_exists(folder / "added_tokens.json"))
    throw refusal("{} has tokens in added_tokens.json, but only tokenizer.json can add tokens", folder.string());
  if (path_exists(folder / "tokenizer_config.json")) {
    const nlohmann::json json = read_json_object(folder / "tokenizer_config.json", kLargestVocabulary);
    const JsonAt root(json, (folder / "tokenizer_config.json").string());
    const JsonAt name = root.key("tokenizer_class");
    if (!name.is_null() && name.text() != "GPT2Tokenizer" && name.text() != "GPT2TokenizerFast")
      name.refuse("without tokenizer.json only GPT2Tokenizer is supported");
    const JsonAt prefix = root.key("add_prefix_space");
    if (prefix.truth_or(false)) prefix.refuse("without tokenizer.json only false is supported");
  }
  if (path_exists(folder / "config.json")) {
    const nlohmann::json json = read_json_object(folder / "config.json", kLargestVocabulary);
    const JsonAt type = JsonAt(json, (folder / "config.json").string()).key("model_type");
    if (!type.is_null() && type.text() != "gpt2") type.refuse("without tokenizer.json only gpt2 is supported");
  }
}

std::vector<Merge> read_merges(const std::filesystem::path& path, const Spellings& spellings) {
  const std::string text = read_text_file(path, kLargestVocabulary);
  MergeReader merges(spellings);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    if (const auto wrong = merges.add_line(line))
      throw refusal("{}: line {} ({}) is not a merge", path.string(), number, shown(line)).because("{}", *wrong);
  }
  return merges.take();
}

}  // namespace

BpeDescription read_vocab_and_merges(const std::filesystem::path& folder) {
  require_gpt2(folder);
  const nlohmann::json json = read_json_object(folder / "vocab.json", kLargestVocabulary);
  const Spellings spellings(JsonAt(json, (folder / "vocab.json").string()));
  BpeDescription description;
  description.file = (folder / "vocab.json").string();
  description.merges = read_merges(folder / "merges.txt", spellings);
  description.vocabulary = spellings.entries();
  description.pattern = kGpt2Pattern;
  if (const auto id = spellings.find(kEndOfText)) {
    AddedToken token;
    token.content = kEndOfText;
    token.id = *id;
    description.added.push_back(token);
  }
  return description;
}

}  // namespace tessera
