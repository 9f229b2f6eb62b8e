#pragma once
// The input and output of `tessera generate`: prompts, stop strings, results.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns generate.prompt, or the lines of the file generate.prompts (LF or CRLF; the last one may lack its newline).
/// With generate.chat they are conversations, each an object as JSON: a text is a user's turn. A .json file is one
/// then, and a line of .jsonl may be one: messages, or an object with them. Throws UsageError if both or none is given,
/// or if the file has no line or cannot be read.
std::vector<std::string> read_prompts(const Options& options);

/// Returns a text as tokens, after those of `begin`. If there are none at all, the end-of-text token stands there, as
/// it does before a document's first. `where` names the text. Throws UsageError if there is no such token, or if an id
/// is beyond the model's vocabulary.
std::vector<std::int32_t> prompt_tokens(const Tokenizer& tokenizer, Tokenizer::Encoder& encoder,
                                        std::vector<std::int32_t> begin, std::string_view text, std::int64_t vocab,
                                        const std::string& where);

/// Returns the strings of generate.stop: the value itself, or those of a JSON array. Throws UsageError for other JSON,
/// empty strings and invalid UTF-8.
std::vector<std::string> stop_strings(const std::string& option);

/// A prompt and the model's continuation.
struct Continuation {
  std::int64_t number = 0;  ///< among the prompts, from 0
  std::string prompt, text;
  std::vector<std::int32_t> tokens;  ///< all that were chosen, including those of a stop string or of the end of text
  std::string finish_reason;         ///< length, stop (a stop string) or end (a token that ends texts)
  double seconds = 0;                ///< from the start of its batch
};

/// Returns a JSON object on one line. Bytes of a prompt that are not UTF-8 become U+FFFD.
std::string json_line(const Continuation& continuation);
/// Reads what json_line wrote.
Continuation continuation_from(const std::string& line);

}  // namespace tessera
