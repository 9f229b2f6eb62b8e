#pragma once
// What is in a corpus of tokens.

#include <string>

#include "tessera/data/token_source.hpp"
#include "tessera/text/prepared.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns lines about the tokens, all of which are read: how many, documents (with `index`) and the longest, the share
/// of the vocabulary that is used, and the beginnings of a few documents (with `tokenizer`). UsageError for ids that
/// the tokenizer does not have.
std::string inspect_tokens(const TokenSource& source, const DocumentIndex* index, const Tokenizer* tokenizer);

}  // namespace tessera
