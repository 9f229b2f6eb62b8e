#include "tokenizer/end_of_text.hpp"

#include "tessera/base/refuse.hpp"
#include "tokenizer/folder_tokens.hpp"

namespace tessera {

std::optional<NamedToken> named_end_of_text(const FolderFiles& files) {
  const std::string config = (files.folder / "tokenizer_config.json").string();
  const std::string model = (files.folder / "config.json").string();
  nlohmann::ordered_json token = files.config.value("eos_token", nlohmann::ordered_json());
  if (token.is_object() && token.contains("content")) token = token["content"];
  if (token.is_string()) return NamedToken{config + ": eos_token", token.get<std::string>()};
  if (!token.is_null()) throw refusal("{}: eos_token is not text, an object with content or null", config);

  nlohmann::ordered_json id = files.model.value("eos_token_id", nlohmann::ordered_json());
  if (id.is_array()) id = id.empty() ? nlohmann::ordered_json() : id.front();
  if (id.is_number_integer()) return NamedToken{model + ": eos_token_id", std::nullopt, id.get<std::int64_t>()};
  if (!id.is_null()) throw refusal("{}: eos_token_id is not a whole number, a list of them or null", model);
  return std::nullopt;
}

}  // namespace tessera
