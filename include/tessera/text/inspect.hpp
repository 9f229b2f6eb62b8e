#pragma once
// A summary of a corpus of tokens.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/token_source.hpp"
#include "tessera/text/prepared.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Reads all tokens and returns lines about them: their number, and the share of the vocabulary that is used. With
/// `index` also the documents and the longest; with `tokenizer` the beginnings of a few. UsageError for ids that the
/// tokenizer does not have.
std::string inspect_tokens(const TokenSource& source, const DocumentIndex* index, const Tokenizer* tokenizer);

/// Returns lines about places of texts that were left out, with data.on_error = skip, or read otherwise: how many, and
/// the first of them.
std::string describe_bad_places(std::int64_t count, const std::vector<std::string>& first);

}  // namespace tessera
