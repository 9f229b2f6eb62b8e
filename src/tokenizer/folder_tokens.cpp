#include "tokenizer/folder_tokens.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "tessera/base/decimal.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestCompanion = 4 << 20;
constexpr std::array kNames{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

Json read_if_there(const std::filesystem::path& path) {
  if (!path_exists(path)) return Json::object();
  read_json_object(path, kLargestCompanion);  // refuses what is none
  return Json::parse(read_text_file(path, kLargestCompanion));
}

bool is_token(const Json& value) { return value.is_string() || (value.is_object() && value.contains("content")); }

/// The library leaves such tokens out.
bool is_empty(const Json& value) { return value == "" || (value.is_object() && value.value("content", Json()) == ""); }

/// Makes a token of its content, which is special, or of an object with its flags.
AddedToken token_of(const Json& value, const std::string& where) {
  const Json content = is_token(value) && value.is_object() ? value["content"] : value;
  if (!content.is_string() || content == "")
    throw refusal("{} is {}, but a token's content, or an object with its content and flags, is needed", where,
                  shown(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  const auto flag = [&](const char* name, bool otherwise) {
    const Json given = value.is_object() ? value.value(name, Json()) : Json();
    return given.is_boolean() ? given.get<bool>() : otherwise;
  };
  AddedToken token;
  token.content = content.get<std::string>();
  token.single_word = flag("single_word", false);
  token.lstrip = flag("lstrip", false);
  token.rstrip = flag("rstrip", false);
  token.special = flag("special", value.is_string());
  token.normalized = flag("normalized", !token.special);
  return token;
}

/// Returns tokenizer_config.json with what the older file says. Tokens of the latter are all special.
Json with_special_map(Json config, const Json& map) {
  const auto mark = [](Json& token) {
    if (token.is_object() && token.contains("content")) token["special"] = true;
  };
  for (const auto& [key, given] : map.items()) {
    Json value = given;
    mark(value);
    if (value.is_array()) std::for_each(value.begin(), value.end(), mark);
    const Json mine = config.value(key, Json());
    if (key == "extra_special_tokens" && value.is_array() && mine.is_array())
      value.insert(value.begin(), mine.begin(), mine.end());
    config[key] = value;
  }
  return config;
}

/// Special tokens: those with a name, then others.
struct SpecialTokens {
  std::vector<AddedToken> named, more;
  std::vector<std::pair<std::string, std::string>> names;  ///< of the first, with their contents
};

SpecialTokens special_tokens(const Json& config, TokenizerClass which, const std::string& file) {
  SpecialTokens special;
  const auto name = [&](const std::string& key, const Json& value) {
    if (is_empty(value)) return;
    special.named.push_back(token_of(value, file + ": " + key));
    special.named.back().special = true;
    special.names.emplace_back(key, special.named.back().content);
  };
  const Json defaults = default_tokens(which), extra = config.value("extra_special_tokens", Json());
  for (const char* key : kNames) {
    const Json token = config.value(key, defaults.value(key, Json()));
    if (!token.is_null()) name(key, token);
  }
  for (const auto& [key, value] : config.items()) {
    if (key.ends_with("_token") && is_token(value) && std::ranges::find(kNames, key) == kNames.end()) name(key, value);
  }
  if (extra.is_object()) {
    for (const auto& [key, value] : extra.items()) name(key, value);
  }
  for (const Json& token : extra.is_array() ? extra : config.value("additional_special_tokens", Json::array()))
    if (!is_empty(token)) special.more.push_back(token_of(token, file + ": extra_special_tokens"));
  return special;
}

bool has(const std::vector<AddedToken>& tokens, const std::string& content) {
  return std::ranges::find(tokens, content, &AddedToken::content) != tokens.end();
}

/// Returns the tokens that files list with ids.
std::map<std::int32_t, AddedToken> tokens_by_id(const FolderFiles& files, const SpecialTokens& special,
                                                const std::vector<AddedToken>& listed) {
  std::map<std::int32_t, AddedToken> tokens;
  const auto add = [&](const Json& id, const Json& token, const std::string& name) {
    const std::string file = files.folder.string();
    if (!id.is_number_integer() || id < 0 || id > kLargestId)
      throw refusal("{}: the added token {} has no id from 0 to {}", file, shown(name), kLargestId);
    tokens[id.get<std::int32_t>()] = token_of(token, file + ": added_tokens_decoder");
  };
  if (const Json decoder = files.config.value("added_tokens_decoder", Json()); decoder.is_object()) {
    for (const auto& [id, token] : decoder.items()) add(whole_number(id).value_or(-1), token, id);
    return tokens;
  }
  for (const auto& [content, id] : files.added.items()) {
    const bool is_special = has(special.named, content) || has(special.more, content);
    add(id, {{"content", content}, {"special", is_special}}, content);
  }
  for (const AddedToken& token : listed) tokens[token.id] = token;
  return tokens;
}

}  // namespace

FolderFiles::FolderFiles(const std::filesystem::path& in)
    : folder(in),
      config(read_if_there(in / "tokenizer_config.json")),
      special_map(read_if_there(in / "special_tokens_map.json")),
      added(read_if_there(in / "added_tokens.json")),
      model(read_if_there(in / "config.json")) {}

const AddedToken* AddedTokens::find(const std::string& content) const {
  const auto found = places_.find(content);
  return found == places_.end() ? nullptr : &tokens_[found->second];
}

std::int32_t AddedTokens::id_for(const std::string& content) const {
  if (const auto id = spellings_.find(content)) return *id;
  const AddedToken* there = find(content);
  return there != nullptr ? there->id : std::max(next_, static_cast<std::int32_t>(spellings_.size()));
}

void AddedTokens::add(AddedToken token) {
  token.id = id_for(token.content);
  if (!spellings_.find(token.content) && spellings_.has_id(token.id))
    throw refusal("the added token {} would get the id {}, which the vocabulary has given to another token",
                  shown(token.content), token.id);
  next_ = std::max(next_, token.id + 1);
  const auto [place, is_new] = places_.try_emplace(token.content, tokens_.size());
  if (is_new) return tokens_.push_back(std::move(token));
  AddedToken& there = tokens_[place->second];
  token.special = token.special || there.special;
  there = std::move(token);
}

std::vector<std::pair<std::string, std::string>> add_folder_tokens(const FolderFiles& files, TokenizerClass which,
                                                                   const std::vector<AddedToken>& listed,
                                                                   AddedTokens& tokens) {
  Json config = files.config;
  const Json older = config.value("additional_special_tokens", Json());
  if (!older.is_null() && config.value("extra_special_tokens", Json()).empty()) {
    config["extra_special_tokens"] = older;
    config.erase("additional_special_tokens");
  }
  if (!config.value("added_tokens_decoder", Json()).is_object()) config = with_special_map(config, files.special_map);
  const SpecialTokens special = special_tokens(config, which, (files.folder / "tokenizer_config.json").string());
  for (auto [id, token] : tokens_by_id(files, special, listed)) {
    token.special = token.special || has(special.named, token.content);
    tokens.add(token);
  }
  std::vector<AddedToken> all = special.named, fresh;
  all.insert(all.end(), special.more.begin(), special.more.end());
  for (const AddedToken& token : all) {
    if (tokens.find(token.content) == nullptr && std::ranges::find(fresh, token) == fresh.end()) fresh.push_back(token);
  }
  for (const AddedToken& token : fresh) tokens.add(token);
  if (which != TokenizerClass::qwen2) return special.names;
  for (const AddedToken& token : all) tokens.add(token_of(token.content, {}));  // it adds them again, without flags
  return special.names;
}

}  // namespace tessera
