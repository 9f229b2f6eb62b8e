#pragma once
// Byte-level BPE as a tokenizer: a description, made ready to encode.

#include <memory>
#include <optional>

#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/added_matcher.hpp"
#include "tokenizer/bpe_description.hpp"
#include "tokenizer/end_of_text.hpp"
#include "tokenizer/merge_table.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/vocabulary.hpp"

namespace tessera {

/// The data that encoders share and only read.
struct BpeTables {
  /// UsageError if the pattern is not read here, or a byte has no token.
  explicit BpeTables(const BpeDescription& description);

  Vocabulary vocabulary;
  MergeTable merges;
  AddedMatcher plain;       ///< added tokens that are looked for in the text as it is
  AddedMatcher normalized;  ///< ... and in the normalised text
  Pattern pattern;
  bool nfc, ignore_merges, add_prefix_space;
  bool cuts;  ///< some texts may be cut
};

/// Makes a tokenizer of a description. `end` is the end of text that the folder names.
std::unique_ptr<Tokenizer> make_byte_level_bpe(const BpeDescription& description, std::optional<NamedToken> end);

/// True if texts have places where they may be cut.
bool may_be_cut(const BpeDescription& description, PatternFamily family);
/// Returns where text may be cut, see Tokenizer::cut_at_or_after.
std::size_t cut_bpe_at_or_after(const BpeTables& tables, std::string_view text, std::size_t from);

/// Makes an encoder; `quick = false` asks the pattern for every word, which tests compare with. It must not outlive
/// `tables`.
std::unique_ptr<Tokenizer::Encoder> make_bpe_encoder(const BpeTables& tables, bool quick = true);

}  // namespace tessera
