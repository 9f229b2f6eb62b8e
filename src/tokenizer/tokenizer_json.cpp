// tokenizer.json of the tokenizers library, as far as BPE goes.

#include "tokenizer/tokenizer_json.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/files/json_file.hpp"
#include "tokenizer/json_at.hpp"
#include "tokenizer/spellings.hpp"
#include "tokenizer/text_rules.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestFile = std::int64_t{512} << 20;

std::string type_of(const JsonAt& object) {
  object.require_object();
  return object.key("type").text();
}

/// Requires that a value is off: null, an empty text, or (dropout) 0.
void require_off(const JsonAt& value) {
  const bool off = value.is_null() || (value.value().is_string() && value.text().empty()) ||
                   (value.value().is_number() && value.value() == 0);
  if (!off) value.refuse_unsupported("only null is supported");
}

// ---- post_processor

/// Returns the ids of the special tokens that a template puts before its first sequence.
std::vector<std::int32_t> template_start(const JsonAt& part) {
  std::vector<std::int32_t> ids;
  const JsonAt single = part.key("single"), known = part.key("special_tokens");
  single.require_list();
  known.require_object();
  for (std::size_t i = 0; i < single.value().size(); ++i) {
    const JsonAt item = single.at(i);
    item.require_object();
    if (!item.key("Sequence").is_null()) break;
    const JsonAt token = item.key("SpecialToken");
    token.require_object();
    const JsonAt entry = known.key(token.key("id").text());
    entry.require_object();
    const JsonAt of_token = entry.key("ids");
    of_token.require_list();
    for (std::size_t k = 0; k < of_token.value().size(); ++k) ids.push_back(of_token.at(k).token_id());
  }
  return ids;
}

/// It puts tokens around a text (or moves offsets): those before it are kept for prompts. Documents get their separator
/// elsewhere.
void read_post_processor(const JsonAt& part, BpeDescription& description) {
  if (part.is_null()) return;
  const std::string type = type_of(part);
  if (type == "Sequence") {
    const JsonAt list = part.key("processors");
    list.require_list();
    for (std::size_t i = 0; i < list.value().size(); ++i) read_post_processor(list.at(i), description);
    return;
  }
  if (type == "TemplateProcessing") {
    description.before_text = template_start(part);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    const JsonAt start = part.key("cls");
    start.require_list();
    if (start.value().size() != 2) start.refuse("a token and its id are needed");
    description.before_text = {start.at(1).token_id()};
  } else if (type != "ByteLevel") {
    part.key("type").refuse("this post-processor is not supported");
  }
}

// ---- model and added tokens

void read_merges(const JsonAt& list, const Spellings& spellings, BpeDescription& description) {
  list.require_list();
  MergeReader merges(spellings);
  for (std::size_t i = 0; i < list.value().size(); ++i) {
    const nlohmann::json& merge = list.value()[i];
    std::optional<std::string> wrong;
    if (merge.is_string()) {
      wrong = merges.add_line(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      wrong = merges.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      wrong = "a text of two tokens or a list of two is needed";
    }
    if (wrong) list.at(i).refuse(*wrong);
  }
  description.merges = merges.take();
}

Spellings read_model(const JsonAt& model, BpeDescription& description) {
  model.require_object();
  model.require_object();
  const JsonAt type = model.key("type");  // older files have none
  if (!type.is_null() && type.text() != "BPE") type.refuse_unsupported("only BPE is supported");
  model.require_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges", "vocab", "merges"});
  require_off(model.key("dropout"));
  require_off(model.key("continuing_subword_prefix"));
  require_off(model.key("end_of_word_suffix"));
  description.fuse_unknown = model.key("fuse_unk").truth_or(false);
  description.byte_fallback = model.key("byte_fallback").truth_or(false);
  description.ignore_merges = model.key("ignore_merges").truth_or(false);
  Spellings spellings(model.key("vocab"));
  const JsonAt unknown = model.key("unk_token");
  if (!unknown.is_null()) description.unknown = spellings.find(unknown.text()).value_or(-1);
  description.rules +=
      fmt::format(" {} {} {}", description.unknown, description.fuse_unknown, description.byte_fallback);
  read_merges(model.key("merges"), spellings, description);
  description.vocabulary = spellings.entries();
  return spellings;
}

AddedToken read_added(const JsonAt& token) {
  token.require_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken added;
  added.id = token.key("id").token_id();
  added.content = token.key("content").text();
  added.single_word = token.key("single_word").truth_or(false);
  added.lstrip = token.key("lstrip").truth_or(false);
  added.rstrip = token.key("rstrip").truth_or(false);
  added.normalized = token.key("normalized").truth_or(false);
  added.special = token.key("special").truth_or(false);
  return added;
}

/// A file whose ids are others than the library gives its tokens is refused, because its ids would differ.
std::vector<AddedToken> read_added_tokens(const JsonAt& list, const Spellings& spellings) {
  if (list.is_null()) return {};
  list.require_list();
  AddedTokens tokens(spellings);
  for (std::size_t i = 0; i < list.value().size(); ++i) {
    const AddedToken token = read_added(list.at(i));
    if (token.content.empty()) list.at(i).key("content").refuse("a token needs characters");
    if (tokens.find(token.content) != nullptr) list.at(i).key("content").refuse("this token was added before");
    const bool known = spellings.find(token.content).has_value();
    const std::int32_t expected = tokens.id_for(token.content);
    if (token.id != expected)
      list.at(i).key("id").refuse((known ? "model.vocab has it as " : "the vocabulary goes on with ") +
                                  std::to_string(expected));
    if (!known && spellings.has_id(token.id)) list.at(i).key("id").refuse("another token has this id");
    tokens.add(token);
  }
  return tokens.take();
}

/// Of a Split that looks for spaces where the normalizer leaves none, nothing is left (Gemma).
void drop_idle_rules(BpeDescription& description) {
  if (std::ranges::none_of(description.normal, [](const TextRule& rule) { return rule.from == " "; })) return;
  std::erase_if(description.words, [](const TextRule& rule) {
    return rule.kind == TextRule::Kind::split && rule.from == " " && !rule.invert;
  });
}

}  // namespace

BpeDescription describe(nlohmann::json json, const std::string& file, const FolderFiles& files, TokenizerClass which) {
  if (json.contains("model") && json["model"].is_object()) bring_parts(which, files.config, json);
  const JsonAt root(json, file);
  BpeDescription description;
  description.file = file;
  for (const char* part : {"normalizer", "pre_tokenizer"}) description.rules += root.key(part).value().dump();
  root.require_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                     "post_processor", "decoder", "model"});
  const JsonAt version = root.key("version");
  if (!version.is_null() && version.value() != "1.0") version.refuse_unsupported("only 1.0 is supported");
  // No id depends on truncation and padding, which a call may switch on, or on the decoder: a text is given back as the
  // encoder took it.
  read_normalizer(root.key("normalizer"), description);
  read_pre_tokenizer(root.key("pre_tokenizer"), description);
  drop_idle_rules(description);
  read_post_processor(root.key("post_processor"), description);
  const Spellings spellings = read_model(root.key("model"), description);
  const std::vector<AddedToken> listed = read_added_tokens(root.key("added_tokens"), spellings);
  AddedTokens added(spellings);
  if (which == TokenizerClass::as_in_file)
    for (const AddedToken& token : listed) added.add(token);
  description.named = add_folder_tokens(files, which, listed, added);
  description.added = added.take();
  description.end_of_text = named_end_of_text(files);
  const bool splits = files.config.value("split_special_tokens", nlohmann::ordered_json()) == true;
  for (AddedToken& token : description.added) token.ignored = splits && token.special;
  return description;
}

BpeDescription read_tokenizer_json(const std::filesystem::path& path) {
  nlohmann::json json = read_json_object(path, kLargestFile);
  const FolderFiles files(path.parent_path());
  const TokenizerClass which = class_of(files.config, files.model, json);
  return describe(std::move(json), path.string(), files, which);
}

}  // namespace tessera
