#include "tessera/text/chats.hpp"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/base/utf8.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/installation.hpp"
#include "tessera/files/json_file.hpp"

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

/// Starts the helper with `end` as its standard input and output. Returns its process.
pid_t start_helper(const std::string& python, const FileDescriptor& end) {
  const fs::path script = installed({"share/tessera/helpers/render_chats.py", "helpers/render_chats.py"});
  if (script.empty())
    throw refusal("helpers/render_chats.py, which renders conversations, is not there").hint("Install Tessera again");
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, end.get(), 0);
  ::posix_spawn_file_actions_adddup2(&files, end.get(), 1);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // In a group of its own it does not get the signals of a terminal: it ends when its input does.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string program = python, file = script.string();
  std::array<char*, 3> words{program.data(), file.data(), nullptr};
  pid_t process = -1;
  const int error = ::posix_spawnp(&process, program.c_str(), &files, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error == 0) return process;
  refuse_python(fmt::format("{} cannot be started ({})", python, std::generic_category().message(error)));
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

/// The helper, and the socket over which it is asked.
class ChatRenderer::Process {
 public:
  explicit Process(const std::string& python) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw IoError("cannot make a socket ({})", last_error());
    socket_ = FileDescriptor(ends[0]);
    const FileDescriptor other(ends[1]);
    process_ = start_helper(python, other);
  }
  ~Process() {
    ::kill(process_, SIGKILL);  // it keeps nothing, and may be busy with a template that does not end
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Returns the answer to a line. The helper reads all of it before it answers, so neither waits for the other.
  Json ask(std::string_view line) {
    send(line);
    send("\n");
    try {
      return Json::parse(answer());
    } catch (const Json::exception& error) {
      throw IoError("the helper that renders conversations does not answer with JSON ({})", shown(error.what()));
    }
  }

 private:
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return;  // it has ended, perhaps after saying why
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::string answer() {
    for (std::size_t searched = 0;;) {
      if (const std::size_t end = buffer_.find('\n', searched); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      searched = buffer_.size();
      buffer_.resize(searched + (std::size_t{1} << 16));
      const ssize_t got = ::recv(socket_.get(), buffer_.data() + searched, buffer_.size() - searched, 0);
      buffer_.resize(searched + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got == 0 || (got < 0 && errno != EINTR))
        throw IoError("the helper that renders conversations ended before it answered");
    }
  }

  FileDescriptor socket_;
  pid_t process_ = -1;
  std::string buffer_;
};

ChatRenderer::ChatRenderer(const ChatForm& form) {
  if (form.settings.empty())
    throw refusal("a conversation needs a chat template, but {}", form.missing).use("data.chat_template = FILE");
  const std::string chosen = variable("TESSERA_PYTHON"), python = chosen.empty() ? "/usr/bin/python3" : chosen;
  Json answer;
  try {
    process_ = std::make_unique<Process>(python);
    answer = process_->ask(form.settings);
  } catch (const IoError& error) {
    refuse_python(fmt::format("with {} {}", python, error.what()));
  }
  if (!answer.contains("error")) return;
  if (answer.contains("line"))
    throw refusal("the chat template does not compile: line {}: {}", answer["line"].dump(),
                  shown(answer["error"].get<std::string>(), 400));
  refuse_python(shown(answer["error"].get<std::string>(), 400));
}

ChatRenderer::~ChatRenderer() = default;

RenderedChat ChatRenderer::render(std::string_view conversation) {
  Json answer = process_->ask(conversation);
  RenderedChat chat;
  if (answer.contains("error")) {
    chat.problem = shown(answer["error"].get<std::string>(), 400);
    return chat;
  }
  chat.text = std::move(answer["text"].get_ref<std::string&>());
  for (const Json& range : answer["counts"]) chat.counts.push_back({range[0], range[1], range[2]});
  return chat;
}

}  // namespace tessera
