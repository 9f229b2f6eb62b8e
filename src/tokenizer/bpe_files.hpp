#pragma once
// Reads the files that describe a byte-level BPE tokenizer.

#include <filesystem>

#include "tokenizer/bpe_description.hpp"

namespace tessera {

/// Reads tokenizer.json. UsageError naming the JSON path of what is wrong, or is asked for but not supported.
BpeDescription read_tokenizer_json(const std::filesystem::path& path);

/// Reads vocab.json and merges.txt of a folder: GPT-2's pattern, and <|endoftext|> as an added token if it is in the
/// vocabulary. UsageError as above, and where other files of the folder say that the tokenizer is another one.
BpeDescription read_vocab_and_merges(const std::filesystem::path& folder);

}  // namespace tessera
