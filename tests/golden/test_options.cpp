// Options are unchanged: names, defaults, allowed values, the commands that read and take them. Their help may be
// reworded.
#include <catch2/catch.hpp>
#include <regex>

#include "config/option_table.hpp"
#include "golden/golden_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/commands/command.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Texts of which an option takes some and refuses others: its answers show its type and its bounds.
constexpr const char* kProbes[] = {"-1",  "0",    "0.5",  "1",   "1.5",   "2",   "1024",    "1025",
                                   "1e9", "true", "auto", "30s", "24GiB", "1,2", "1ms,2GB", "any text"};

/// "block|size|model", or the numbers of "whole number, 0 to 1024"; nothing of examples.
std::string bounds_of(const OptionEntry& row) {
  static const std::regex number(R"(-?\d+(\.\d+)?(e[+-]?\d+)?)"), example("example|such as|, or");
  std::smatch examples;
  const std::string text = std::regex_search(row.allowed, examples, example) ? examples.prefix().str() : row.allowed;
  if (text.find('|') != std::string::npos) return text;
  std::string out;
  for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at)
    out += (out.empty() ? "" : ",") + at->str();
  return out;
}

std::string probed(const OptionEntry& row) {
  std::string out;
  for (const char* probe : kProbes) {
    Options options;
    out += row.set(options, probe) ? '+' : '-';
  }
  return out;
}

bool is_taken(std::vector<std::string> words, const OptionEntry& row) {
  const std::string value = row.get(Options{});
  words.push_back("--" + row.name + "=" + (value.empty() ? "1" : value));
  try {
    read_call(words);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

std::string commands_of(const OptionEntry& row) {
  static const std::vector<std::string> commands[] = {{"train"},           {"plan"},           {"bench", "step"},
                                                      {"bench", "comm"},   {"sweep", "a.ini"}, {"import", "a", "b"},
                                                      {"export", "a", "b"}};
  std::string out;
  for (const std::vector<std::string>& words : commands) {
    const Command& command = *find_command(words);
    const bool read = read_option(command.reads, row.name), taken = is_taken(words, row);
    if (read || taken) out += fmt::format(" {}:{}{}", words.at(words[0] == "bench"), read ? "r" : "", taken ? "t" : "");
  }
  return out;
}

}  // namespace

TEST_CASE("options are what they were") {
  std::vector<GoldenEntry> entries;
  for (const OptionEntry& row : option_table()) {
    const std::string value = row.get(Options{});
    entries.push_back({row.name, fmt::format("{} [{}] {}{}", value.empty() ? "-" : value, bounds_of(row), probed(row),
                                             commands_of(row))});
    CHECK_FALSE(row.help.empty());
  }
  check_golden("options.txt", entries);
}
