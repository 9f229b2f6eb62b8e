// docs/manual holds the tables of commands, steps and options: the texts between its markers are made here.
#include <fmt/ranges.h>

#include <boost/algorithm/string/replace.hpp>
#include <catch2/catch.hpp>

#include "commands/words.hpp"
#include "config/option_table.hpp"
#include "document.hpp"
#include "tessera/record/measures.hpp"
#include "tessera/resolve/resolved_run.hpp"

using namespace tessera;

namespace {

std::string cell(std::string_view text) { return boost::replace_all_copy(std::string(text), "|", "\\|"); }

std::string commands_table() {
  std::string out = "| command | what it does |\n|---|---|\n";
  for (const Command& command : all_commands()) {
    const std::string words = words_after(command);
    out += fmt::format("| `tessera {}{}{}` | {} |\n", command.name, words.empty() ? "" : " ", words, command.help);
  }
  return out;
}

std::string steps_table() {
  constexpr std::string_view needs[] = {"", "files", "ranks", "a device"};  // by StepNeeds
  std::string out = "| step | why | needs |\n|---|---|---|\n";
  for (const ResolveStep& step : resolve_steps())
    out += fmt::format("| {} | {} | {} |\n", step.name, step.why, needs[static_cast<std::size_t>(step.needs)]);
  return out;
}

std::string options_tables() {
  std::string out, section;
  for (const OptionEntry& row : option_table()) {
    if (section != row.section()) {
      section = row.section();
      out += fmt::format("{}## [{}]: {}\n\n| option | default | allowed | meaning |\n|---|---|---|---|\n",
                         out.empty() ? "" : "\n", section, section_title(section));
    }
    const std::string value = row.get({});
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", row.name, value.empty() ? "empty" : cell(value),
                       cell(row.allowed), cell(row.help));
  }
  return out;
}

std::string code(const std::string& text, const char* slash = "") {
  return text.empty() ? "" : fmt::format("`{}{}`", slash, text);
}

/// Says NAME for what /steps/time, /comm and /overlap have a dataset of each.
std::string in_general(std::string path) {
  std::vector<std::string> names = overlap_names();
  std::ranges::copy(time_category_names(), std::back_inserter(names));
  std::ranges::copy(kCollectiveNames, std::back_inserter(names));
  for (const std::string& name : names) {
    boost::replace_first(path, "comm/" + name + "/", "comm/NAME/");
    boost::replace_first(path, "overlap/" + name + "/", "overlap/NAME/");
    if (path.ends_with("time/" + name)) boost::replace_last(path, name, "NAME");
  }
  return path;
}

std::string measures_table() {
  std::string out = "| in metrics.h5 | type | unit | in log.jsonl | what it is |\n|---|---|---|---|---|\n";
  for (const Measure& one : all_measures()) {
    const std::string row =
        fmt::format("| {} | {} | {} | {} | {} |\n", code(in_general(one.path), "/"),
                    one.kind == Measure::Kind::real ? "float64" : "int64", one.unit, code(one.log), cell(one.help));
    if (out.find(row) == std::string::npos) out += row;
  }
  return out;
}

std::string report_table() {
  std::string out =
      "\"\"\"Made by build/ci/bin/test_commands from src/record/measures.cpp.\"\"\"\n\n"
      "# Attributes that tessera-report shows under their names.\nREPORTED = {\n";
  for (const Measure& one : all_measures()) {
    if (one.reported) out += fmt::format("    \"{}\": \"/{}\",\n", one.path.substr(one.path.find('/') + 1), one.path);
  }
  return out + fmt::format("}}\nCOLLECTIVES = (\"{}\")\n", fmt::join(kCollectiveNames, "\", \""));
}

}  // namespace

TEST_CASE("docs/manual holds the commands and options as they are (TESSERA_UPDATE=1 rewrites it)") {
  check_table("docs/manual/commands.md", "commands", commands_table());
  check_table("docs/manual/configuration.md", "steps", steps_table());
  check_table("docs/manual/options.md", "options", options_tables());
  check_table("docs/manual/metrics.md", "measures", measures_table());
  check_file("postprocess/tessera_report/measure_table.py", report_table());
}

TEST_CASE("A changed, missing or added line of the table is a difference") {
  CHECK(first_difference("a\nb\n", "a\nb\n") == "");
  CHECK(first_difference("a\nb\n", "a\nc\n") != "");
  CHECK(first_difference("a\n", "a\nb\n") != "");
  CHECK(first_difference("a\n\n", "a\n") != "");
}
