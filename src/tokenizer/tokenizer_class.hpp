#pragma once
// The tokenizer classes of Transformers 5 that bring parts of their own.

#include <nlohmann/json.hpp>

namespace tessera {

/// as_in_file: tokenizer.json is used as it is. The others take its vocabulary, merges and post_processor alone.
enum class TokenizerClass { as_in_file, gpt2, qwen2, llama, gemma };

/// Returns the class that AutoTokenizer chooses, by tokenizer_config.json (`config`), config.json (`model`), which may
/// be empty objects, and the content of tokenizer.json.
TokenizerClass class_of(const nlohmann::ordered_json& config, const nlohmann::ordered_json& model,
                        const nlohmann::json& tokenizer);

/// Replaces normalizer, pre-tokenizer and the flags of the model in `tokenizer` by those of a class.
void bring_parts(TokenizerClass which, const nlohmann::ordered_json& config, nlohmann::json& tokenizer);

/// Returns the tokens that a class has by name where tokenizer_config.json has no such key.
nlohmann::ordered_json default_tokens(TokenizerClass which);

}  // namespace tessera
