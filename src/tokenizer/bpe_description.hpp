#pragma once
// Everything that files say of a BPE tokenizer, checked.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/end_of_text.hpp"

namespace tessera {

struct VocabularyEntry {
  std::string spelling;  ///< as the file has it: in the byte alphabet, or any text that no merge reaches
  std::int32_t id;
};

/// Two tokens that become one. A merge's place in its list is its rank: the lowest goes first.
struct Merge {
  std::int32_t left, right, result;
};

/// A token that is cut out of the text before BPE.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< not next to a word's character
  bool lstrip = false;       ///< takes white space on its left with it
  bool rstrip = false;
  bool normalized = false;  ///< looked for in normalised text
  bool special = false;
  bool ignored = false;  ///< found, but read like other text
  bool operator==(const AddedToken&) const = default;
};

/// What becomes of the matches of a pattern and the text between them.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// How a text is normalised, or how a part of it that rules before this one cut off is cut further.
struct TextRule {
  enum class Kind {
    nfc,      ///< normal form C
    replace,  ///< all places of `from` become `to`
    prepend,  ///< `to` is put before it
    prefix,   ///< the same, unless it begins with `to`, or (first_only) is not the beginning of the whole text
    split,    ///< it is cut at the matches of `from`, a pattern in Oniguruma's syntax
  };
  Kind kind = Kind::nfc;
  std::string from, to;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  ///< split: matches and the text between them change places
  bool first_only = false;
  bool operator==(const TextRule&) const = default;
};

struct BpeDescription {
  std::string file;                         ///< for messages
  std::vector<VocabularyEntry> vocabulary;  ///< ids differ, spellings too
  std::vector<Merge> merges;                ///< by rank; pairs differ
  std::vector<AddedToken> added;            ///< contents differ; ids differ from those of other spellings
  std::vector<TextRule> normal;             ///< nfc, replace, prepend
  std::vector<TextRule> words;              ///< replace, prefix, split
  std::string rules;           ///< all that decides ids and is neither a token nor a merge, as the file has it
  bool byte_level = false;     ///< the vocabulary is written in the byte alphabet
  bool byte_fallback = false;  ///< a character without a token becomes the tokens <0x00> to <0xFF> of its bytes
  std::int32_t unknown = -1;   ///< the token of a character without one; -1: it is left out
  bool fuse_unknown = false;   ///< such characters next to each other become one token
  bool ignore_merges = false;  ///< a word that is in the vocabulary is that token
  std::string mark;            ///< what a space is written as; empty: itself
  std::vector<std::int32_t> before_text;                   ///< ids that the file's template puts before a text
  std::vector<std::pair<std::string, std::string>> named;  ///< tokens with a name, such as bos_token
  std::optional<NamedToken> end_of_text;                   ///< which the folder names
};

/// Tables by id are as long as the largest one, whatever a file says. The largest vocabularies have a million.
constexpr std::int32_t kLargestId = (1 << 22) - 1;

/// The patterns of the families that have a quick path.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Reads tokenizer.json and the files next to it (folder_tokens.hpp). UsageError naming the JSON path of what is wrong,
/// or is asked for but not supported.
BpeDescription read_tokenizer_json(const std::filesystem::path& path);

/// Reads vocab.json and merges.txt of a folder, whose other files say which class it is: GPT-2's or Qwen2's. UsageError
/// as above.
BpeDescription read_vocab_and_merges(const std::filesystem::path& folder);

}  // namespace tessera
