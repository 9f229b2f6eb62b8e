#include "tokenizer/tokenizer_class.hpp"

#include <algorithm>
#include <array>

#include "tokenizer/bpe_description.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;

bool is_byte_level(const nlohmann::json& tokenizer) {
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    if (tokenizer.value(key, nlohmann::json()).dump().find("\"ByteLevel\"") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TokenizerClass class_of(const Json& config, const Json& model, const nlohmann::json& tokenizer) {
  const Json type = model.value("model_type", Json());
  // Of most other types the library ignores the class that a folder names.
  constexpr std::array kHeeded{"gpt2", "llama", "qwen2", "qwen3"};
  const bool gemma = type.is_string() && type.get_ref<const std::string&>().starts_with("gemma");
  if (!type.is_null() && !gemma && std::ranges::find(kHeeded, type) == kHeeded.end()) return TokenizerClass::as_in_file;
  if (type == "qwen2") return TokenizerClass::qwen2;  // whatever class its folder names
  Json given = config.value("tokenizer_class", Json());
  if (given.is_null()) given = model.value("tokenizer_class", Json());
  if (given.is_string()) {
    std::string name = given.get<std::string>();
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    if (name == "GPT2Tokenizer") return TokenizerClass::gpt2;
    if (name == "Qwen2Tokenizer") return TokenizerClass::qwen2;
    if (name == "GemmaTokenizer") return TokenizerClass::gemma;
    return name == "LlamaTokenizer" && !is_byte_level(tokenizer) ? TokenizerClass::llama : TokenizerClass::as_in_file;
  }
  if (type == "gpt2") return TokenizerClass::gpt2;
  if (type == "qwen3") return TokenizerClass::qwen2;
  return gemma ? TokenizerClass::gemma : TokenizerClass::as_in_file;
}

void bring_parts(TokenizerClass which, const Json& config, nlohmann::json& tokenizer) {
  if (which == TokenizerClass::as_in_file) return;
  const Json given = config.value("add_prefix_space", Json());
  const bool llama = which == TokenizerClass::llama, gemma = which == TokenizerClass::gemma;
  const bool prefix = given.is_boolean() ? given.get<bool>() : llama;
  nlohmann::json normalizer, words = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}};
  if (which == TokenizerClass::qwen2) {
    normalizer = {{"type", "NFC"}};
    words["use_regex"] = false;
    const nlohmann::json split = {{"type", "Split"}, {"pattern", {{"Regex", kQwen2Pattern}}}, {"behavior", "Isolated"}};
    words = {{"type", "Sequence"}, {"pretokenizers", {split, words}}};
  } else if (llama) {
    const char* when = config.value("legacy", Json()) == true ? "always" : "first";
    words = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"split", false}};
    words["prepend_scheme"] = prefix ? when : "never";
  } else if (gemma) {  // It also cuts at spaces, of which the normalizer leaves none.
    normalizer = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
    words = nullptr;
  }
  tokenizer["normalizer"] = normalizer;
  tokenizer["pre_tokenizer"] = words;
  nlohmann::json& model = tokenizer["model"];
  model["fuse_unk"] = model["byte_fallback"] = llama || gemma;
  for (const char* key : {"unk_token", "dropout", "end_of_word_suffix", "continuing_subword_prefix", "ignore_merges"})
    model.erase(key);
  const Json unknown = config.value("unk_token", Json("<unk>"));
  if (gemma) model["unk_token"] = unknown.is_object() ? unknown.value("content", Json()) : unknown;
}

Json default_tokens(TokenizerClass which) {
  const std::string end = "<|endoftext|>";
  switch (which) {
    case TokenizerClass::as_in_file:
      break;
    case TokenizerClass::gpt2:
      return {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}};
    case TokenizerClass::qwen2:
      return {{"eos_token", end}, {"unk_token", end}, {"pad_token", end}};
    case TokenizerClass::llama:
      return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    case TokenizerClass::gemma:
      return {{"bos_token", "<bos>"},
              {"eos_token", "<eos>"},
              {"unk_token", "<unk>"},
              {"pad_token", "<pad>"},
              {"mask_token", "<mask>"}};
  }
  return Json::object();
}

}  // namespace tessera
