#pragma once
// What is in a corpus of tokens.

#include <string>

#include "tessera/data/token_source.hpp"
#include "tessera/text/prepared.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Reads all tokens and returns lines about them: their number, and the share of the vocabulary that is used. With
/// `index` also the documents and the longest; with `tokenizer` the beginnings of a few. UsageError for ids that the
/// tokenizer does not have.
std::string inspect_tokens(const TokenSource& source, const DocumentIndex* index, const Tokenizer* tokenizer);

}  // namespace tessera
