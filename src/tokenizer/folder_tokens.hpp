#pragma once
// Tokens that files next to tokenizer.json add.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/bpe_description.hpp"
#include "tokenizer/spellings.hpp"
#include "tokenizer/tokenizer_class.hpp"

namespace tessera {

/// Added tokens, numbered as the tokenizers library does: one that the vocabulary has keeps its id there.
class AddedTokens {
 public:
  explicit AddedTokens(const Spellings& spellings) : spellings_(spellings) {}
  /// Returns the id that a token has, or would get.
  std::int32_t id_for(const std::string& content) const;
  const AddedToken* find(const std::string& content) const;
  /// Adds a token under that id; one that is there gets these flags.
  void add(AddedToken token);
  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  const Spellings& spellings_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> places_;
  std::int32_t next_ = 0;
};

/// The files next to a tokenizer's own, as objects with keys in the files' order; empty where there is no such file.
struct FolderFiles {
  /// UsageError for files that are not JSON objects.
  explicit FolderFiles(const std::filesystem::path& folder);
  std::filesystem::path folder;
  nlohmann::ordered_json config, special_map, added, model;  ///< model: config.json
};

/// Adds the tokens of a folder's files as Transformers 5 does. `listed` are tokenizer.json's own, of which `tokens`
/// holds none where the class brings its own parts. Returns those with a name: {"bos_token", "<s>"}. UsageError naming
/// the file and key of what is not a token.
std::vector<std::pair<std::string, std::string>> add_folder_tokens(const FolderFiles& files, TokenizerClass which,
                                                                   const std::vector<AddedToken>& listed,
                                                                   AddedTokens& tokens);

}  // namespace tessera
