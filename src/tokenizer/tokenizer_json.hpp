#pragma once
// The content of tokenizer.json as a description.

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/bpe_description.hpp"
#include "tokenizer/folder_tokens.hpp"

namespace tessera {

/// Reads the content of `file`, with the parts that its class brings and the tokens that the folder's files add.
BpeDescription describe(nlohmann::json json, const std::string& file, const FolderFiles& files, TokenizerClass which);

}  // namespace tessera
