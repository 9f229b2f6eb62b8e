// tokenizer.json of the tokenizers library, as far as byte-level BPE goes.

#include <unordered_set>

#include "tessera/base/error.hpp"
#include "tessera/files/json_file.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/json_at.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/spellings.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestFile = std::int64_t{512} << 20;

std::string type_of(const JsonAt& object) {
  object.require_object();
  return object.key("type").text();
}

/// Requires that a value is off, as in files of byte-level BPE: null, an empty text, or (dropout) 0.
void require_off(const JsonAt& value) {
  const bool off = value.is_null() || (value.value().is_string() && value.text().empty()) ||
                   (value.value().is_number() && value.value() == 0);
  if (!off) value.refuse("only null is supported");
}

// ---- normalizer

bool reads_nfc(const JsonAt& normalizer) {
  if (normalizer.is_null()) return false;
  const std::string type = type_of(normalizer);
  if (type == "NFC") {
    normalizer.require_keys({"type"});
    return true;
  }
  if (type != "Sequence") normalizer.key("type").refuse("only NFC, a Sequence of it or null is supported");
  normalizer.require_keys({"type", "normalizers"});
  const JsonAt list = normalizer.key("normalizers");
  list.require_list();
  bool nfc = false;
  for (std::size_t i = 0; i < list.value().size(); ++i) nfc = reads_nfc(list.at(i)) || nfc;
  return nfc;
}

// ---- pre_tokenizer

struct ByteLevel {
  bool add_prefix_space, use_regex;
};

ByteLevel read_byte_level(const JsonAt& part) {
  part.require_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  part.key("trim_offsets").truth_or(true);
  return {part.key("add_prefix_space").truth(), part.key("use_regex").truth_or(true)};
}

std::string read_split(const JsonAt& part) {
  part.require_keys({"type", "pattern", "behavior", "invert"});
  const JsonAt behavior = part.key("behavior"), invert = part.key("invert");
  if (behavior.text() != "Isolated") behavior.refuse("only Isolated is supported");
  if (invert.truth()) invert.refuse("only false is supported");
  const JsonAt pattern = part.key("pattern");
  pattern.require_keys({"Regex"});
  const JsonAt regex = pattern.key("Regex");
  try {
    const Pattern checked(regex.text());
  } catch (const UsageError& error) {
    throw UsageError("{}: {}: {}", regex.file(), regex.path(), error.what());
  }
  return regex.text();
}

void read_pre_tokenizer(const JsonAt& part, BpeDescription& description) {
  constexpr const char* kSupported = "only ByteLevel, or a Sequence of Split and ByteLevel, is supported";
  if (part.is_null()) part.refuse(kSupported);
  const std::string type = type_of(part);
  if (type == "ByteLevel") {
    const ByteLevel level = read_byte_level(part);
    if (!level.use_regex) part.key("use_regex").refuse("only true is supported where nothing else cuts words");
    description.pattern = kGpt2Pattern;
    description.add_prefix_space = level.add_prefix_space;
    return;
  }
  if (type != "Sequence") part.key("type").refuse(kSupported);
  part.require_keys({"type", "pretokenizers"});
  const JsonAt list = part.key("pretokenizers");
  list.require_list();
  if (list.value().size() == 1) return read_pre_tokenizer(list.at(0), description);
  if (list.value().size() != 2) list.refuse("only a Split and then a ByteLevel are supported");
  if (type_of(list.at(0)) != "Split") list.at(0).key("type").refuse("only Split is supported here");
  if (type_of(list.at(1)) != "ByteLevel") list.at(1).key("type").refuse("only ByteLevel is supported here");
  description.pattern = read_split(list.at(0));
  const ByteLevel level = read_byte_level(list.at(1));
  if (level.use_regex) list.at(1).key("use_regex").refuse("only false is supported after Split");
  if (level.add_prefix_space) list.at(1).key("add_prefix_space").refuse("only false is supported after Split");
}

// ---- parts that do not change ids of a text

void check_decoder(const JsonAt& decoder) {
  if (decoder.is_null()) decoder.refuse("only ByteLevel is supported");
  if (type_of(decoder) != "ByteLevel") decoder.key("type").refuse("only ByteLevel is supported");
}

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
  model.require_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges", "vocab", "merges"});
  const JsonAt type = model.key("type");  // older files have none
  if (!type.is_null() && type.text() != "BPE") type.refuse("only BPE is supported");
  require_off(model.key("dropout"));
  require_off(model.key("continuing_subword_prefix"));
  require_off(model.key("end_of_word_suffix"));
  if (!model.key("unk_token").is_null())
    model.key("unk_token").refuse("only null is supported, because every byte is a token");
  // Neither takes effect where every byte is a token, which the vocabulary is checked for.
  model.key("fuse_unk").truth_or(false);
  model.key("byte_fallback").truth_or(false);
  description.ignore_merges = model.key("ignore_merges").truth_or(false);
  Spellings spellings(model.key("vocab"));
  read_merges(model.key("merges"), spellings, description);
  description.vocabulary = spellings.entries();
  return spellings;
}

AddedToken read_added(const JsonAt& token) {
  token.require_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  token.key("special").truth_or(false);  // decides what a reader of ids leaves out
  AddedToken added;
  added.id = token.key("id").token_id();
  added.content = token.key("content").text();
  added.single_word = token.key("single_word").truth_or(false);
  added.lstrip = token.key("lstrip").truth_or(false);
  added.rstrip = token.key("rstrip").truth_or(false);
  added.normalized = token.key("normalized").truth_or(false);
  return added;
}

/// The library takes the vocabulary's id for a token that is there, and counts on from its size for others. A file that
/// says something else is refused, because its ids would differ.
void read_added_tokens(const JsonAt& list, const Spellings& spellings, BpeDescription& description) {
  if (list.is_null()) return;
  list.require_list();
  std::unordered_set<std::string> contents;
  auto next = static_cast<std::int64_t>(spellings.size());
  for (std::size_t i = 0; i < list.value().size(); ++i) {
    const AddedToken token = read_added(list.at(i));
    if (token.content.empty()) list.at(i).key("content").refuse("a token needs characters");
    if (!contents.insert(token.content).second) list.at(i).key("content").refuse("this token was added before");
    const auto known = spellings.find(token.content);
    const std::int64_t expected = known ? *known : next++;
    if (token.id != expected)
      list.at(i).key("id").refuse((known ? "model.vocab has it as " : "the vocabulary goes on with ") +
                                  std::to_string(expected));
    if (!known && spellings.has_id(token.id)) list.at(i).key("id").refuse("another token has this id");
    description.added.push_back(token);
  }
}

}  // namespace

BpeDescription read_tokenizer_json(const std::filesystem::path& path) {
  const nlohmann::json json = read_json_object(path, kLargestFile);
  const JsonAt root(json, path.string());
  BpeDescription description;
  description.file = path.string();
  root.require_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                     "post_processor", "decoder", "model"});
  const JsonAt version = root.key("version");
  if (!version.is_null() && version.value() != "1.0") version.refuse("only 1.0 is supported");
  for (const char* name : {"truncation", "padding"}) {
    if (!root.key(name).is_null()) root.key(name).refuse("only null is supported");
  }
  description.nfc = reads_nfc(root.key("normalizer"));
  read_pre_tokenizer(root.key("pre_tokenizer"), description);
  read_post_processor(root.key("post_processor"), description);
  check_decoder(root.key("decoder"));
  const Spellings spellings = read_model(root.key("model"), description);
  read_added_tokens(root.key("added_tokens"), spellings, description);
  return description;
}

}  // namespace tessera
