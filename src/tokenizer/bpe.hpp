#pragma once
// BPE as a tokenizer: a description, made ready to encode.

#include <memory>

#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/added_matcher.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/merge_table.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/word_splitter.hpp"

namespace tessera {

/// Where text may be cut so that both parts give the ids of the whole.
enum class Cuts {
  nowhere,
  between_words,  ///< of a known family's pattern
  before_marks,   ///< before a space behind something else, which no merge joins
};

/// The data that encoders share and only read.
struct BpeTables {
  /// UsageError if a pattern is not read here.
  explicit BpeTables(const BpeDescription& description);

  Vocabulary vocabulary;
  MergeTable merges;
  AddedMatcher plain;       ///< added tokens that are looked for in the text as it is
  AddedMatcher normalized;  ///< ... and in the normalised text
  std::vector<TextRule> normal;
  Cuts cuts;
  WordRules words;
  bool ignore_merges;
  std::string mark;       ///< of a space
  bool begins_with_mark;  ///< one is put before a text
};

/// Makes a tokenizer of a description.
std::unique_ptr<Tokenizer> make_bpe(const BpeDescription& description);

/// Returns where texts have places where they may be cut.
Cuts cuts_of(const BpeDescription& description);
/// Returns where text may be cut, see Tokenizer::cut_at_or_after.
std::size_t cut_bpe_at_or_after(const BpeTables& tables, std::string_view text, std::size_t from);

/// Makes an encoder; `quick = false` asks the patterns for every word, which tests compare with. It must not outlive
/// `tables`.
std::unique_ptr<Tokenizer::Encoder> make_bpe_encoder(const BpeTables& tables, bool quick = true);

}  // namespace tessera
