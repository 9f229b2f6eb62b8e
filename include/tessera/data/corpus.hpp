#pragma once
// Sources of tokens: token files, text, and synthetic text.

#include <filesystem>
#include <memory>

#include "tessera/config/options.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera {

/// Opens a memory-mapped token file: raw little-endian uint16 (nanoGPT), or llm.c's. llm.c's header is 256 int32:
/// magic, version, number of tokens. 20240520 and version 1 mean uint16; 20240801 and version 7 mean uint32. UsageError
/// when the file is missing, empty, truncated or of another version, naming the expected and the found.
std::unique_ptr<TokenSource> open_token_file(const std::filesystem::path& file);

/// Writes llm.c's token file: uint16, or uint32 where ids of `source` may need it. Replaces the file whole. IoError;
/// UsageError for more tokens than its header can count.
void write_token_file(const TokenSource& source, const std::filesystem::path& path);

/// Opens the bytes of all .txt files under `folder` (or of one .txt file), joined in the order of their paths below it,
/// as tokens. Links to files are followed, links to folders are skipped (TokenSource::skipped). UsageError when there
/// is no text, or when there is .json or .jsonl, which this version does not read. IoError for a path that cannot be
/// read or listed. Files must not shrink while they are open.
std::unique_ptr<TokenSource> open_text(const std::filesystem::path& folder);

/// Generates seeded text of `tokens` tokens over the whole vocabulary, frequent tokens first (Zipf's law). It is a
/// second-order Markov chain in pieces of 256. With probabilities 1/2, 1/4, 1/8 and 1/16 one of a token's four
/// successors follows, else any token. The token before it decides which successor is which. So the loss falls from
/// log(vocab) to at most 1.3 nats plus a sixteenth of the entropy of Zipf's law. For a vocabulary of 256 that sum is
/// 1.6. Nothing is stored: a token depends on seed, vocabulary and position only.
std::unique_ptr<TokenSource> synthetic_text(std::int64_t tokens, std::int64_t vocab, std::int64_t seed);

/// Opens the corpus that data.source names, checked against the model's vocabulary (check_vocabulary).
std::unique_ptr<TokenSource> open_corpus(const DataOptions& options, std::int64_t vocab);

}  // namespace tessera
