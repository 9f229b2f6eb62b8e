#include "commands/generate_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<GenerationPrompt> encode_prompts(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                             const std::vector<std::int32_t>& begin, std::int64_t vocab) {
  const auto encoder = tokenizer.encoder();
  std::vector<GenerationPrompt> prompts;
  for (const std::string& text : texts) {
    GenerationPrompt& prompt = prompts.emplace_back();
    prompt.number = static_cast<std::int64_t>(prompts.size()) - 1;
    prompt.tokens = prompt_tokens(tokenizer, *encoder, begin, text, vocab, fmt::format("prompt {}", prompts.size()));
  }
  return prompts;
}

TextMaker::TextMaker(const TextRules& rules, std::int64_t number, const std::string& prompt, std::int64_t max_tokens)
    : rules_(&rules), max_tokens_(max_tokens), stream_(rules.stops) {
  result_.number = number;
  result_.prompt = prompt;
}

std::string TextMaker::add(std::int32_t token) {
  result_.tokens.push_back(token);
  if (std::ranges::find(rules_->ends, token) != rules_->ends.end()) {
    result_.finish_reason = "end";
    return {};
  }
  std::string shown = stream_.push(rules_->tokenizer.bytes_of(token));
  result_.text += shown;
  if (stream_.stopped()) {
    result_.finish_reason = "stop";
  } else if (static_cast<std::int64_t>(result_.tokens.size()) == max_tokens_) {
    result_.finish_reason = "length";
  }
  return shown;
}

void TextMaker::finish(double seconds) {
  rest_ = stream_.finish();
  result_.text += rest_;
  result_.seconds = seconds;
}

void Printer::begin(const Continuation& next) {
  if (format_ != ResultFormat::text) return;
  shown_ = next.number;
  if (prompts_ > 1) write(fmt::format("==> {} of {} <==\n", next.number + 1, prompts_));
  write(next.prompt);
}

void Printer::show(const std::string& piece) {
  if (format_ == ResultFormat::text) write(piece);
}

void Printer::print(const Continuation& result) {
  if (format_ == ResultFormat::json) return write(json_line(result) + "\n");
  if (result.number != shown_) {
    begin(result);
    write(result.text);
  }
  write("\n");
}

void Printer::write(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw IoError("cannot write to the standard output ({})", std::generic_category().message(errno));
}

}  // namespace tessera
