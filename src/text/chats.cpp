#include "tessera/text/chats.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/utf8.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "text/helper.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargestTemplate = std::int64_t{1} << 24;
/// What is answered to conversations with tools, where a folder has it; others get the default.
constexpr std::array kTemplates{"default", "tool_use"};

std::string read_template(const fs::path& file) {
  std::string text = read_text_file(file, kLargestTemplate);
  if (valid_utf8_end(text) < text.size()) throw refusal("the chat template {} is not UTF-8", file.string());
  return text;
}

/// Returns a folder's templates by their names, from its own files or else from tokenizer_config.json.
Json templates_of(const fs::path& folder) {
  Json found = Json::object();
  for (const char* name : kTemplates) {
    const fs::path file = folder / "additional_chat_templates" / fmt::format("{}.jinja", name);
    if (path_exists(file)) found[name] = read_template(file);
  }
  if (const fs::path file = folder / kChatTemplate; path_exists(file)) found["default"] = read_template(file);
  const fs::path config_file = folder / "tokenizer_config.json";
  if (!found.empty() || !path_exists(config_file)) return found;
  const nlohmann::json config = read_json_object(config_file, kLargestTemplate);
  const nlohmann::json given = config.value("chat_template", nlohmann::json());
  const auto take = [&](const char* name, const nlohmann::json& text) {
    if (text.is_string()) found[name] = text;
  };
  take("default", given);
  for (const char* name : kTemplates) {
    if (given.is_object()) take(name, given.value(name, nlohmann::json()));
    for (const nlohmann::json& one : given.is_array() ? given : nlohmann::json::array()) {
      if (one.is_object() && one.value("name", nlohmann::json()) == name)
        take(name, one.value("template", nlohmann::json()));
    }
  }
  return found;
}

[[noreturn]] void refuse_python(const std::string& why) {
  throw refusal("conversations are rendered by Jinja2 in Python, but {}", why)
      .hint("Install python3 and python3-jinja2, as jobs/setup.sh does, or set TESSERA_PYTHON to a Python with Jinja2");
}

Json json_of(std::string_view answer) {
  try {
    return Json::parse(answer);
  } catch (const Json::exception& error) {
    throw IoError("the helper that renders conversations does not answer with JSON ({})", shown(error.what()));
  }
}

/// Returns the size of a text, and three numbers for each range that counts.
std::vector<std::size_t> numbers_of(std::string_view line) {
  std::vector<std::size_t> numbers;
  const char *at = line.data(), *const end = at + line.size();
  bool is_good = true;
  while (is_good && at < end) {
    const auto [behind, error] = std::from_chars(at, end, numbers.emplace_back());
    is_good = error == std::errc() && (behind == end || *behind == ' ');
    at = std::min(behind + 1, end);
  }
  if (is_good && numbers.size() % 3 == 1) return numbers;
  throw IoError("the helper that renders conversations answers \"{}\"", shown(line, 200));
}

}  // namespace

ChatForm chat_form(const DataOptions& options, const Tokenizer& tokenizer, const std::string& name, bool prompts) {
  Json templates = Json::object();
  ChatForm form;
  if (!options.chat_template.empty()) {
    templates["default"] = read_template(options.chat_template);
  } else if (name == "bytes") {
    form.missing = "data.tokenizer = bytes has none";
  } else {
    std::error_code ignored;
    const fs::path beside = fs::is_directory(name, ignored) ? tokenizer_in(name) : fs::path(name).parent_path();
    const fs::path folder = beside.empty() ? "." : beside;
    form.missing = fmt::format(
        "{} has neither chat_template.jinja nor a chat_template in tokenizer_config.json (of several, the one named "
        "default)",
        folder.string());
    try {
      templates = templates_of(folder);
    } catch (const Error& error) {  // only a conversation needs it
      form.missing = error.what();
      if (form.missing.ends_with('.')) form.missing.pop_back();
    }
  }
  if (!templates.contains("default")) return form;
  Json tokens = Json::object();
  for (const auto& [key, content] : tokenizer.named_tokens()) tokens[key] = content;
  const Json settings = {{"templates", templates},
                         {"tokens", tokens},
                         {"turns", name_of(options.chat_turns)},
                         {"counts", name_of(options.chat_counts)},
                         {"prompt_only", prompts}};
  form.settings = settings.dump();
  return form;
}

ChatRenderer::ChatRenderer(const ChatForm& form) {
  if (form.settings.empty())
    throw refusal("a conversation needs a chat template, but {}", form.missing).use("data.chat_template = FILE");
  Json answer;
  try {
    helper_ = std::make_unique<Helper>("render_chats.py");
    helper_->send(form.settings);
    answer = json_of(helper_->line());
  } catch (const IoError& error) {
    refuse_python(error.what());
  }
  if (!answer.contains("error")) return;
  if (answer.contains("line"))
    throw refusal("the chat template does not compile: line {}: {}", answer["line"].dump(),
                  shown(answer["error"].get<std::string>(), 400));
  refuse_python(shown(answer["error"].get<std::string>(), 400));
}

ChatRenderer::~ChatRenderer() = default;

void ChatRenderer::ask(std::span<const std::string> conversations) {
  helper_->send(fmt::format("{}\n{}", conversations.size(), fmt::join(conversations, "\n")));
}

RenderedChat ChatRenderer::next() {
  const std::string line = helper_->line();
  RenderedChat chat;
  if (line.starts_with('{')) {
    chat.problem = shown(json_of(line).value("error", ""), 400);
    if (chat.problem.ends_with('.')) chat.problem.pop_back();
    return chat;
  }
  const std::vector<std::size_t> numbers = numbers_of(line);
  chat.text = helper_->bytes(numbers[0]);
  for (std::size_t i = 1; i < numbers.size(); i += 3)
    chat.counts.push_back({numbers[i], numbers[i + 1], numbers[i + 2] == 1});
  return chat;
}

}  // namespace tessera
