#include "tokenizer/end_of_text.hpp"

#include <nlohmann/json.hpp>

#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestModelFile = 16 << 20;

}  // namespace

std::optional<NamedToken> named_end_of_text(const std::filesystem::path& folder) {
  const std::filesystem::path tokens = folder / "tokenizer_config.json";
  if (path_exists(tokens)) {
    const nlohmann::json json = read_json_object(tokens, kLargestModelFile);
    const nlohmann::json* token = json.contains("eos_token") ? &json["eos_token"] : nullptr;
    if (token != nullptr && token->is_object() && token->contains("content")) token = &(*token)["content"];
    if (token != nullptr && token->is_string())
      return NamedToken{tokens.string() + ": eos_token", token->get<std::string>()};
    if (token != nullptr && !token->is_null())
      throw refusal("{}: eos_token is not text, an object with content or null", tokens.string());
  }
  const std::filesystem::path model = folder / "config.json";
  if (path_exists(model)) {
    const nlohmann::json json = read_json_object(model, kLargestModelFile);
    const nlohmann::json* id = json.contains("eos_token_id") ? &json["eos_token_id"] : nullptr;
    if (id != nullptr && id->is_array()) id = id->empty() ? nullptr : &id->front();
    if (id != nullptr && id->is_number_integer())
      return NamedToken{model.string() + ": eos_token_id", std::nullopt, id->get<std::int64_t>()};
    if (id != nullptr && !id->is_null())
      throw refusal("{}: eos_token_id is not a whole number, a list of them or null", model.string());
  }
  return std::nullopt;
}

}  // namespace tessera
