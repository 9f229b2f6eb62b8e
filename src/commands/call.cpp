// From words to a call: which command, with which paths, files and options.
#include <algorithm>
#include <system_error>

#include "commands/words.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace {

/// Replaces a run's folder with its config.ini, and a checkpoint with that of its run.
std::filesystem::path config_of(const std::filesystem::path& input) {
  std::error_code ignored;
  for (const auto& config : {input / "config.ini", input / "../../config.ini"}) {
    if (std::filesystem::is_directory(input, ignored) && std::filesystem::is_regular_file(config, ignored))
      return config.lexically_normal();
  }
  return input;
}

std::size_t count_of_paths(const Command& command) {
  return command.paths.empty() ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(command.paths, ' '));
}

Call call_of(const std::vector<std::string>& words) {
  Call call;
  call.command = find_command(words);
  return call;
}

Call call_of_help(std::vector<std::string> topic) {
  if (topic.empty()) topic.emplace_back(kWithOptions);  // --help alone
  std::erase(topic, "help");
  // An input file and paths may follow the command's name.
  const Command* const one = find_command(topic);
  if (!topic.empty()) topic.resize(one != nullptr && one->name != topic[0] ? 2 : 1);
  const bool is_command = !topic.empty() && topic[0] != "options" && topic[0] != kWithOptions;
  if (is_command && commands_named(topic).empty()) throw unknown_command(topic);
  Call call = call_of({"help"});
  call.words = std::move(topic);
  return call;
}

/// Takes a command's paths and its input file out of the positional words.
void take_words(Call& call, const std::vector<std::string>& positional) {
  const Command& command = *call.command;
  const std::size_t paths = count_of_paths(command);
  auto next = positional.begin() + 1 + std::ranges::count(command.name, ' ');
  if (positional.end() - next < static_cast<std::ptrdiff_t>(paths)) {
    throw refusal("{} needs {}", command.name, paths == 1 ? "a path" : "two paths")
        .hint("Write tessera {} {}", command.name, words_after(command));
  }
  call.words.assign(next, next + static_cast<std::ptrdiff_t>(paths));
  next += static_cast<std::ptrdiff_t>(paths);
  if (next != positional.end() && command.input != InputFile::none) call.input = *next++;
  if (command.input == InputFile::of_run) call.input = config_of(call.input);
  if (command.input == InputFile::of_sweep && call.input.empty())
    throw refusal("{} needs a file", command.name).hint("Write tessera {} {}", command.name, words_after(command));
  if (next == positional.end()) return;
  if (!call.input.empty()) {
    throw refusal("{} stands after the input file {}, but only one file is read", in_quotes(*next),
                  in_quotes(call.input.string()))
        .hint("Write options as --section.key=value");
  }
  Refusal error = refusal("{} stands after all that {} takes", in_quotes(*next), command.name);
  if (command.name == "generate")
    throw error.hint("Write the text to go on with as --generate.prompt={}", in_quotes(*next));
  throw error.hint("Write tessera {} {}", command.name, words_after(command));
}

void require_taken(const Command& command, const Setting& setting) {
  if (read_option(command.reads | command.takes, setting.name)) return;
  throw refusal("{} = {} has no effect", setting.name, in_quotes(setting.value))
      .because("tessera {} does not read it", command.name)
      .hint("Leave it out");
}

}  // namespace

Call read_call(const std::vector<std::string>& words) {
  // An option before the command would swallow the command as its value, so the command comes first, unless the option
  // is a flag that stands alone.
  Arguments arguments = read_arguments(words);
  if (arguments.help || (!words.empty() && words[0] == "help")) return call_of_help(std::move(arguments.positional));
  if (arguments.version) return call_of({"version"});
  if (words.empty() || words[0].starts_with("-")) {
    throw refusal("{} stands where a command belongs", words.empty() ? "nothing" : in_quotes(words[0]))
        .hint("Write tessera COMMAND [INPUT.ini] [--section.key=value ...]");
  }
  Call call = call_of(arguments.positional);
  if (call.command == nullptr) throw unknown_command(arguments.positional);
  take_words(call, arguments.positional);
  for (const Setting& setting : arguments.settings) require_taken(*call.command, setting);
  call.settings = std::move(arguments.settings);
  if (call.command->input == InputFile::of_sweep) return call;
  std::vector<Setting> settings = call.settings;
  if (const std::string_view option = call.command->path_option; !option.empty())
    settings.push_back({std::string(option), call.words.at(0), "command line"});
  call.options = resolve(call.input, settings);
  return call;
}

}  // namespace tessera
