#include "sweep/launcher.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <cctype>
#include <ranges>

#include "sweep/child.hpp"
#include "sweep/slurm.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/files/installation.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

namespace {

/// The replacements for {name} within the words of a command.
using Replacements = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kTessera = "{tessera}";

/// Throws UsageError for a {name} without a meaning; other braces belong to the command.
void require_placeholders(const SweepRow& row, const Replacements& known) {
  for (std::size_t at = row.command.find('{'); at != std::string::npos; at = row.command.find('{', at + 1)) {
    const std::size_t end = row.command.find('}', at);
    if (end == std::string::npos) return;
    const std::string word = row.command.substr(at, end - at + 1);
    const bool is_name = word.size() > 2 && std::islower(static_cast<unsigned char>(word[1])) != 0 &&
                         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_./", 1) == word.size() - 1;
    const bool is_known = std::ranges::find(known, word, &Replacements::value_type::first) != known.end();
    if (!is_name || is_known) continue;
    throw refusal("{} in its command stands for nothing", word)
        .use("{{ranks}}, {{run}}, {{row}}, {{tokens}}, {{peers}}, {{tessera}}, or an option as {{section.key}}");
  }
}

std::string default_launcher() {
  const bool has_mpiexec = !find_program("mpiexec").empty();
  const bool prefers_srun = !variable("SLURM_JOB_ID").empty() && !(in_step_of_srun() && has_mpiexec);
  if (prefers_srun && !find_program("srun").empty()) return "srun";
  return has_mpiexec ? "mpiexec" : "";
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  constexpr std::string_view kEscaped = "'\"\\ \t";
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '\\' && i + 1 < text.size() && kEscaped.find(text[i + 1]) != std::string_view::npos;
    if (is_escape) ++i;
    const char c = text[i];
    const bool is_quote = !is_escape && (quote != 0 ? c == quote : c == '"' || c == '\'');
    if (!is_escape && quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (is_quote) {
      quote = quote == 0 ? c : '\0';
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) throw refusal("a quote is not closed in the words {}", text).hint("Close it, or write \\{}", quote);
  return words;
}

std::vector<std::string> launcher_words(const std::string& launcher, std::int64_t ranks) {
  const std::string name = launcher == "auto" ? default_launcher() : launcher;
  const std::string count = std::to_string(ranks);
  if (name.empty() && ranks > 1)
    throw refusal("sweep.launcher = auto finds neither mpiexec nor srun")
        .hint("Load an MPI, or give the launcher's words");
  if (name.empty()) return {};
  if (name == "mpiexec") return {"mpiexec", "-n", count};
  // With 1, the first rank that stops with a checkpoint (75) would have the others killed.
  if (name == "srun")
    return {"srun", fmt::format("--mpi={}", mpi_of_srun()), "--kill-on-bad-exit=0", "--ntasks=" + count};
  std::vector<std::string> words = split_words(name);
  for (std::string& word : words) boost::replace_all(word, "{ranks}", count);
  return words;
}

std::vector<std::string> train_words(const std::string& launcher, std::int64_t ranks,
                                     const std::filesystem::path& config, const std::filesystem::path& run) {
  std::vector<std::string> words = launcher_words(launcher, ranks);
  words.insert(words.end(), {own_executable().string(), "train", config.string(), "--run.dir=" + run.string()});
  return words;
}

std::vector<std::string> command_words(const SweepRow& row, const std::string& launcher,
                                       const std::filesystem::path& run, const std::filesystem::path& tokens) {
  std::vector<std::string> tessera;
  if (row.command.find(kTessera) != std::string::npos) tessera = launcher_words(launcher, row.ranks);
  tessera.push_back(own_executable().string());
  const std::string peers = peers_folder().string();  // without it the row is skipped
  Replacements known = {{"{ranks}", std::to_string(row.ranks)},         {"{run}", run.string()},
                        {"{row}", run.parent_path().string()},          {"{tokens}", tokens.string()},
                        {"{peers}", peers.empty() ? "{peers}" : peers}, {std::string(kTessera), shell_text(tessera)}};
  known.emplace_back("{train.steps/2}", std::to_string(std::max<std::int64_t>(1, row.options.train.steps / 2)));
  for (const OptionValue& option : flat_options(row.options)) known.emplace_back("{" + option.name + "}", option.value);
  require_placeholders(row, known);
  std::vector<std::string> words;
  for (std::string word : split_words(row.command)) {
    if (word == kTessera) {
      words.insert(words.end(), tessera.begin(), tessera.end());
      continue;
    }
    for (const auto& [name, value] : known) boost::replace_all(word, name, value);
    words.push_back(word);
  }
  if (words.empty()) throw refusal("its command is empty").hint("Give a program and its arguments");
  return words;
}

std::filesystem::path peers_folder() {
  return installed({"share/tessera/peers/pytorch_train.sh", "tests/peers/pytorch_train.sh"}).parent_path();
}

bool wants_tokens(const SweepRow& row) { return row.command.find("{tokens}") != std::string::npos; }

std::string shell_text(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words | std::views::transform(shell_quoted), " "));
}

}  // namespace tessera
