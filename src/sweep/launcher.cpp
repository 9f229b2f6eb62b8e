#include "sweep/launcher.hpp"

#include <algorithm>
#include <boost/program_options/parsers.hpp>

#include "sweep/child.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

namespace {

constexpr std::string_view kPlaceholders[] = {"ranks", "run", "tokens"};

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

/// UsageError for a {name} without a meaning; other braces are the command's.
void require_placeholders(const SweepRow& row) {
  for (std::size_t at = row.command.find('{'); at != std::string::npos; at = row.command.find('{', at + 1)) {
    const std::size_t end = row.command.find('}', at);
    if (end == std::string::npos) return;
    const std::string name = row.command.substr(at + 1, end - at - 1);
    const bool is_name = !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (is_name && std::ranges::find(kPlaceholders, name) == std::end(kPlaceholders)) {
      throw UsageError("{{{}}} in its command stands for nothing: {{ranks}}, {{run}} or {{tokens}}", name);
    }
  }
}

std::string default_launcher() {
  const bool in_slurm = !variable("SLURM_JOB_ID").empty();
  if (in_slurm && !find_program("srun").empty()) return "srun";
  return find_program("mpiexec").empty() ? "" : "mpiexec";
}

}  // namespace

std::filesystem::path own_executable() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw IoError("cannot read /proc/self/exe ({})", error.message());
  return path;
}

std::vector<std::string> launcher_words(const std::string& launcher, std::int64_t ranks) {
  const std::string name = launcher == "auto" ? default_launcher() : launcher;
  const std::string count = std::to_string(ranks);
  if (name.empty() && ranks > 1)
    throw UsageError("sweep.launcher = auto finds neither mpiexec nor srun: load an MPI, or give the launcher's words");
  if (name.empty()) return {};
  if (name == "mpiexec") return {"mpiexec", "-n", count};
  // With 1, the first rank that stops with a checkpoint (75) has the others killed.
  if (name == "srun") return {"srun", "--mpi=pmix", "--kill-on-bad-exit=0", "--ntasks=" + count};
  std::vector<std::string> words = boost::program_options::split_unix(name);
  for (std::string& word : words) replace_all(word, "{ranks}", count);
  return words;
}

std::vector<std::string> train_words(const std::string& launcher, std::int64_t ranks,
                                     const std::filesystem::path& config, const std::filesystem::path& run) {
  std::vector<std::string> words = launcher_words(launcher, ranks);
  words.insert(words.end(), {own_executable().string(), "train", config.string(), "--run.dir=" + run.string()});
  return words;
}

std::vector<std::string> command_words(const SweepRow& row, const std::filesystem::path& run,
                                       const std::filesystem::path& tokens) {
  require_placeholders(row);
  std::vector<std::string> words = boost::program_options::split_unix(row.command);
  if (words.empty()) throw UsageError("its command is empty: a program and its arguments");
  for (std::string& word : words) {
    replace_all(word, "{ranks}", std::to_string(row.ranks));
    replace_all(word, "{run}", run.string());
    replace_all(word, "{tokens}", tokens.string());
  }
  return words;
}

bool wants_tokens(const SweepRow& row) { return row.command.find("{tokens}") != std::string::npos; }

std::string shell_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += fmt::format("{}{}", text.empty() ? "" : " ", shell_quoted(word));
  return text;
}

}  // namespace tessera
