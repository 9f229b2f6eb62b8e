#pragma once
// The normalizer and the pre-tokenizer of tokenizer.json.

#include "tokenizer/bpe_description.hpp"
#include "tokenizer/json_at.hpp"

namespace tessera {

/// Read into `normal`. UsageError naming what is not supported.
void read_normalizer(const JsonAt& normalizer, BpeDescription& description);

/// Read into `words`, `byte_level` and `mark`. UsageError naming what is not supported.
void read_pre_tokenizer(const JsonAt& part, BpeDescription& description);

}  // namespace tessera
