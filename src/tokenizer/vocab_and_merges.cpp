// The files of GPT-2 and Qwen2 from before tokenizer.json.

#include <nlohmann/json.hpp>
#include <tuple>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/json_file.hpp"
#include "tokenizer/json_at.hpp"
#include "tokenizer/spellings.hpp"
#include "tokenizer/tokenizer_json.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestVocabulary = std::int64_t{256} << 20;
using Json = nlohmann::ordered_json;

/// Other families have files of these names too, with other words. Without a name they are GPT-2's.
TokenizerClass class_of_pair(const FolderFiles& files) {
  const TokenizerClass which = class_of(files.config, files.model, nlohmann::json::object());
  if (which == TokenizerClass::gpt2 || which == TokenizerClass::qwen2) return which;
  for (const auto& [object, file, key] : {std::tuple(&files.config, "tokenizer_config.json", "tokenizer_class"),
                                          std::tuple(&files.model, "config.json", "tokenizer_class"),
                                          std::tuple(&files.model, "config.json", "model_type")}) {
    const Json name = object->value(key, Json());
    if (name.is_null()) continue;
    throw refusal("{}: {} is {}, but without tokenizer.json only GPT-2's and Qwen2's tokenizers are supported",
                  (files.folder / file).string(), key, shown(name.dump()))
        .hint("Save the tokenizer with Transformers, which writes tokenizer.json");
  }
  return TokenizerClass::gpt2;
}

/// Returns the id that add_bos_token of tokenizer_config.json puts before a text. (tokenizer.json says it itself.)
std::vector<std::int32_t> start_of(const FolderFiles& files, TokenizerClass which, const BpeDescription& description) {
  if (files.config.value("add_bos_token", Json()) != true) return {};
  Json token = files.config.value("bos_token", default_tokens(which).value("bos_token", Json()));
  if (token.is_object()) token = token.value("content", Json());
  for (const AddedToken& added : description.added) {
    if (token == added.content) return {added.id};
  }
  return {};
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
  const FolderFiles files(folder);
  const TokenizerClass which = class_of_pair(files);
  const std::string file = (folder / "vocab.json").string();
  nlohmann::json vocabulary = read_json_object(folder / "vocab.json", kLargestVocabulary);
  std::vector<Merge> merges = read_merges(folder / "merges.txt", Spellings(JsonAt(vocabulary, file)));
  nlohmann::json json;
  json["model"] = {{"vocab", std::move(vocabulary)}, {"merges", nlohmann::json::array()}};
  BpeDescription description = describe(std::move(json), file, files, which);
  description.merges = std::move(merges);
  description.before_text = start_of(files, which, description);
  return description;
}

}  // namespace tessera
