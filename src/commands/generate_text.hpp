#pragma once
// The text side of `tessera generate`: prompts as tokens, tokens as text, and the output.

#include <string>
#include <vector>

#include "tessera/generate/generator.hpp"
#include "tessera/generate/prompts.hpp"
#include "tessera/generate/text_stream.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

/// Returns prompts as tokens (prompt_tokens).
std::vector<GenerationPrompt> encode_prompts(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                             const std::vector<std::int32_t>& begin, std::int64_t vocab);

/// The parts that turn tokens into text.
struct TextRules {
  const Tokenizer& tokenizer;
  const std::vector<std::string>& stops;
  std::vector<std::int32_t> ends;  ///< the tokens that end a text
};

/// Makes the text of one continuation.
class TextMaker {
 public:
  TextMaker(const TextRules& rules, std::int64_t number, const std::string& prompt, std::int64_t max_tokens);

  /// Takes the next token. Returns the text that it brings.
  std::string add(std::int32_t token);
  /// Returns whether the text has ended: by its length, a stop string or a token that ends texts.
  bool ended() const { return !result_.finish_reason.empty(); }
  /// Ends the text; rest() then returns what was held back.
  void finish(double seconds);
  const std::string& rest() const { return rest_; }
  const Continuation& result() const { return result_; }

 private:
  const TextRules* rules_;
  std::int64_t max_tokens_;
  TextStream stream_;
  Continuation result_;
  std::string rest_;
};

/// Prints continuations to the standard output, in their order.
class Printer {
 public:
  Printer(ResultFormat format, std::size_t prompts) : format_(format), prompts_(prompts) {}

  /// Text: prints the prompt of a text that show() then prints piece by piece.
  void begin(const Continuation& next);
  void show(const std::string& piece);
  /// Prints a finished one, or only its end if it was shown already.
  void print(const Continuation& result);

 private:
  void write(const std::string& text);

  ResultFormat format_;
  std::size_t prompts_;
  std::int64_t shown_ = -1;  ///< the number of the text that begin() began
};

}  // namespace tessera
