#include "tessera/generate/prompts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/utf8.hpp"
#include "tessera/files/json_file.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestFile = std::int64_t{1} << 30;
constexpr const char* kAllowedStop = "a text, or a JSON array of texts such as [\"\\n\", \"END\"]";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

/// Returns a user's turn, a conversation as JSON.
std::string users_turn(const std::string& text) {
  using Json = nlohmann::ordered_json;
  const Json message{{"role", "user"}, {"content", text}};
  return Json{{"messages", {message}}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the prompt of a JSON text, or of an object with "prompt"; with `chats` as a conversation, which it may be.
/// Nothing if it is none.
std::optional<std::string> prompt_in_json(const std::string& text, bool chats) {
  using Json = nlohmann::json;
  const Json given = parse_json(text);
  if (chats) {
    // As it stands, with its large numbers and the order of its keys, but in one line.
    std::string line = text;
    std::ranges::replace_if(
        line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    if (given.is_array()) return "{\"messages\":" + line + "}";
    const auto has_list = [&](const char* key) { return given.is_object() && given.value(key, Json()).is_array(); };
    if (has_list("messages") || has_list("conversations") || has_list("prompt")) return line;
  }
  const Json prompt = given.is_object() ? given.value("prompt", Json()) : given;
  if (!prompt.is_string()) return {};
  return chats ? users_turn(prompt) : prompt.get<std::string>();
}

/// Returns the prompts of texts, most often lines, so that prompts can span lines.
std::vector<std::string> prompts_in_json(const std::string& file, const std::vector<std::string>& lines, bool chats) {
  std::vector<std::string> prompts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(" \t\r") == std::string::npos) continue;
    std::optional<std::string> prompt;
    std::string why = "it has no text";
    try {
      prompt = prompt_in_json(lines[i], chats);
    } catch (const nlohmann::json::exception& error) {
      why = shown(error.what());
    }
    if (!prompt) {
      throw refusal("{}:{}: this is not a prompt ({})", file, i + 1, why)
          .use("a JSON text, or {{\"prompt\": ...}}, or {{\"messages\": ...}} with generate.chat");
    }
    prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

std::vector<std::string> stops_in_json(const std::string& option) try {
  const nlohmann::json array = parse_json(option);
  std::vector<std::string> stops;
  for (const nlohmann::json& stop : array) stops.push_back(stop.get<std::string>());
  return stops;
} catch (const nlohmann::json::exception& error) {
  throw refusal("generate.stop = {} begins like a JSON array but is not one of texts ({})", shown(option),
                shown(error.what()))
      .use("{}", kAllowedStop);
}

}  // namespace

std::vector<std::string> read_prompts(const Options& options) {
  const GenerateOptions& generate = options.generate;
  const bool has_prompt = options.is_given("generate.prompt");
  if (has_prompt && !generate.prompts.empty())
    throw refusal("generate.prompt, a text, and generate.prompts, a file of texts, are both given").use("one of them");
  if (has_prompt) return {generate.chat ? users_turn(generate.prompt) : generate.prompt};
  if (generate.prompts.empty())
    throw refusal("there is no text to go on with").hint("Give generate.prompt, or generate.prompts, a file of them");
  std::string text = read_text_file(generate.prompts, kLargestFile);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  if (const std::size_t end = valid_utf8_end(text); end < text.size()) {
    throw refusal("{}:{}: this is not UTF-8", generate.prompts,
                  1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'))
        .use("a text file in UTF-8, unpacked");
  }
  const bool is_whole = generate.prompts.ends_with(".json");
  std::vector<std::string> prompts = is_whole ? std::vector{text} : lines_of(text);
  if (is_whole || generate.prompts.ends_with(".jsonl")) {
    prompts = prompts_in_json(generate.prompts, prompts, generate.chat);
  } else if (generate.chat) {
    std::ranges::transform(prompts, prompts.begin(), users_turn);
  }
  if (prompts.empty())
    throw refusal("generate.prompts = {} is empty", generate.prompts).hint("Write a prompt in each line");
  return prompts;
}

std::vector<std::int32_t> prompt_tokens(const Tokenizer& tokenizer, Tokenizer::Encoder& encoder,
                                        std::vector<std::int32_t> begin, std::string_view text, std::int64_t vocab,
                                        const std::string& where) {
  std::vector<std::int32_t> tokens = std::move(begin);
  encode_prompt(tokenizer, encoder, text, tokens);
  if (tokens.empty()) {
    const auto end = tokenizer.end_of_text();
    if (!end)
      throw refusal("{} is empty, and {} has no end-of-text token to begin with", where, tokenizer.describe())
          .hint("Give it some text");
    tokens.push_back(*end);
  }
  const std::int32_t largest = *std::ranges::max_element(tokens);
  if (largest >= vocab)
    throw refusal("{} has token {} of {}, but the model's vocabulary is {}", where, largest, tokenizer.describe(),
                  vocab)
        .use("the tokenizer that it was trained with");
  return tokens;
}

std::vector<std::string> stop_strings(const std::string& option) {
  if (option.empty()) return {};
  std::vector<std::string> stops{option};
  if (option.starts_with('[')) stops = stops_in_json(option);
  for (const std::string& stop : stops) {
    if (stop.empty()) throw refusal("generate.stop = {} has an empty text", shown(option)).use("{}", kAllowedStop);
    if (valid_utf8_end(stop) < stop.size())
      throw refusal("generate.stop = {} is not valid UTF-8", shown(option)).use("{}", kAllowedStop);
  }
  return stops;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Continuation, number, prompt, text, tokens, finish_reason, seconds)

std::string json_line(const Continuation& c) {
  using Json = nlohmann::ordered_json;
  const Json json{{"number", c.number},
                  {"prompt", c.prompt},
                  {"text", c.text},
                  {"tokens", c.tokens},
                  {"finish_reason", c.finish_reason},
                  {"seconds", c.seconds}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Continuation continuation_from(const std::string& line) { return parse_json(line).get<Continuation>(); }

}  // namespace tessera
