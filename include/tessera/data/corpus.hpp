#pragma once
// Sources of tokens: token files, text, and synthetic text.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/enums.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera {

/// What is known of the numbers in token files without a header.
struct RawTokens {
  TokenBytes bytes = TokenBytes::automatic;  ///< data.token_bytes; automatic: 2, unless something speaks against it
  std::int64_t vocab = 0;                    ///< ids of the vocabulary; 0: not known
};

/// Opens a memory-mapped token file: raw little-endian uint16 (nanoGPT) or uint32, llm.c's, or Tessera's own
/// (data/token_header.hpp). llm.c's 20240520 and version 1 mean uint16; 20240801 and version 7 mean uint32. UsageError
/// when the file is missing, empty, truncated or of another version, naming the expected and the found; also when the
/// numbers of one without a header seem to have another width.
std::unique_ptr<TokenSource> open_token_file(const std::filesystem::path& file, const RawTokens& raw = {});

/// Returns whether a token file has one of the headers, so that it says how wide its numbers are. IoError.
bool has_token_header(const std::filesystem::path& file);

/// Writes llm.c's token file: uint16, or uint32 where ids of `source` may need it. Replaces the file whole. IoError;
/// UsageError for more tokens than its header can count.
void write_token_file(const TokenSource& source, const std::filesystem::path& path);

/// Opens the bytes of text files, joined in their order, as tokens; a byte order mark at a file's start is left out.
/// `name` is for describe(). UsageError when there is no text at all, and for UTF-16; IoError for a file that cannot be
/// read. Files must not shrink while they are open.
std::unique_ptr<TokenSource> open_text_files(const std::string& name, const std::vector<std::filesystem::path>& files);

/// UsageError for a text that begins with the byte order mark of UTF-16, which no text in UTF-8 does.
void refuse_utf16(const std::filesystem::path& file, std::string_view start);

/// Joins sources to one, in their order. `name` is for describe().
std::unique_ptr<TokenSource> join_sources(const std::string& name, std::vector<std::unique_ptr<TokenSource>> parts);

/// Generates seeded text of `tokens` tokens over the whole vocabulary, frequent tokens first (Zipf's law). It is a
/// second-order Markov chain in pieces of 256. With probabilities 1/2, 1/4, 1/8 and 1/16 one of a token's four
/// successors follows, else any token. The token before it decides which successor is which. So the loss falls from
/// log(vocab) to at most 1.3 nats plus a sixteenth of the entropy of Zipf's law. For a vocabulary of 256 that sum is
/// 1.6. Nothing is stored: a token depends on seed, vocabulary and position only.
std::unique_ptr<TokenSource> synthetic_text(std::int64_t tokens, std::int64_t vocab, std::int64_t seed);

}  // namespace tessera
