#pragma once
// The token that a folder of Hugging Face's names as the end of a text.

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

struct FolderFiles;

/// A token by content or by id, and who says so.
struct NamedToken {
  std::string where;  ///< file and key
  std::optional<std::string> content;
  std::int64_t id = -1;  ///< where there is no content
};

/// Returns eos_token of tokenizer_config.json, else eos_token_id of config.json (the first of a list); nothing if
/// neither names one. Throws UsageError if what they name is not a token.
std::optional<NamedToken> named_end_of_text(const FolderFiles& files);

}  // namespace tessera
