#pragma once
// Everything that a file says of a byte-level BPE tokenizer, checked.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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
};

struct BpeDescription {
  std::string file;                         ///< for messages
  std::vector<VocabularyEntry> vocabulary;  ///< ids differ, spellings too
  std::vector<Merge> merges;                ///< by rank; pairs differ
  std::vector<AddedToken> added;            ///< contents differ; ids differ from those of other spellings
  std::string pattern;                      ///< of words, in Oniguruma's syntax
  bool nfc = false;
  bool ignore_merges = false;             ///< a word that is in the vocabulary is that token
  std::vector<std::int32_t> before_text;  ///< ids that the file's template puts before a text
  bool add_prefix_space = false;          ///< before text that does not begin with one
};

/// Tables by id are as long as the largest one, whatever a file says. The largest vocabularies have a million.
constexpr std::int32_t kLargestId = (1 << 22) - 1;

/// The patterns of the families that have a quick path.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Reads tokenizer.json. UsageError naming the JSON path of what is wrong, or is asked for but not supported.
BpeDescription read_tokenizer_json(const std::filesystem::path& path);

/// Reads vocab.json and merges.txt of a folder: GPT-2's pattern, and <|endoftext|> as an added token if it is in the
/// vocabulary. UsageError as above, and where other files of the folder say that the tokenizer is another one.
BpeDescription read_vocab_and_merges(const std::filesystem::path& folder);

}  // namespace tessera
