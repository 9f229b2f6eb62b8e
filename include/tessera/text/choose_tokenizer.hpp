#pragma once
// The tokenizer and the separator that the options name.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/config/options.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns the folder or file of data.tokenizer, or "bytes". The default is the tokenizer that belongs to model.from: a
/// Hugging Face folder, or a run or checkpoint that keeps its files. Without model.from it is "bytes", and so is an
/// export of a model of bytes. UsageError if model.from has none.
std::string tokenizer_name(const Options& options);

/// Opens a tokenizer by such a name.
std::unique_ptr<Tokenizer> open_named_tokenizer(const std::string& name);

/// Returns the token after each document: none, the content of one, or for auto the tokenizer's end of text (bytes:
/// none). UsageError if there is no such token.
std::optional<std::int32_t> separator_of(const DataOptions& options, const Tokenizer& tokenizer, bool is_bytes);

}  // namespace tessera
