// sweep.action = print and status.
#include <algorithm>
#include <cstdio>

#include "sweep/actions.hpp"
#include "sweep/attempt.hpp"
#include "sweep/launcher.hpp"
#include "sweep/needs.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/installation.hpp"

namespace tessera {

namespace {

/// Returns the word that starts this executable in a shell.
std::string tessera_word() {
  std::error_code ignored;
  const bool is_found = std::filesystem::equivalent(find_program("tessera"), own_executable(), ignored);
  return is_found ? "tessera" : own_executable().string();
}

std::vector<std::string> command_of(const Sweep& sweep, const SweepFolder& folder, const SweepRow& row) {
  if (!row.trains()) return command_words(row, sweep.file.sweep.launcher, folder.run(row, 1), "TOKENS.bin");
  std::vector<std::string> words = launcher_words(sweep.file.sweep.launcher, row.ranks);
  words.insert(words.end(), {tessera_word(), "train"});
  const std::vector<std::string> options = train_arguments(row.options);
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--run.dir=" + folder.run(row, 1).string());
  return words;
}

std::string verdict(const RowNeeds& needs) {
  if (!needs.missing.empty()) return "skipped: " + needs.missing;
  return needs.misfit.empty() ? "" : "does not fit: " + needs.misfit;
}

}  // namespace

int print_sweep(const Sweep& sweep) {
  const SweepFolder folder(sweep.file);
  const std::string repeats =
      sweep.file.sweep.repeat > 1 ? fmt::format(", each {} times", sweep.file.sweep.repeat) : std::string();
  const std::string text = fmt::format("sweep {}: {}{}, into {}\n\n", sweep.file.sweep.name,
                                       counted(std::ssize(sweep.chosen), "row"), repeats, folder.path().string());
  TextTable table({"row", ">ranks", "device", ">memory per rank", ""});
  std::string commands;
  for (const SweepRow& row : sweep.chosen) {
    const RowNeeds needs = needs_of(row, Site::here, row.ranks);
    table.row({row.name, std::to_string(row.ranks), needs.device, row.trains() ? format_bytes(needs.bytes) : "-",
               verdict(needs)});
    commands += fmt::format("\n# {}\n{}\n", row.name, shell_text(command_of(sweep, folder, row)));
  }
  std::fputs(fmt::format("{}{}{}\nTo start them: --sweep.action=run (here, one after the other) or submit (Slurm).\n",
                         text, table.text(), commands)
                 .c_str(),
             stdout);
  return 0;
}

int show_status(const Sweep& sweep) {
  const SweepFolder folder(sweep.file);
  folder.require_started();
  const std::set<std::string> lost = lost_jobs(folder, sweep.chosen);
  TextTable table({"row", ">ranks", "status", ">step", ">attempts", ""});
  for (const SweepRow& row : sweep.chosen) {
    const RowStatus status = folder.status(row);
    const std::int64_t repeat = std::min(status.repeats + 1, sweep.file.sweep.repeat);
    std::string note = status.message;
    if (status.state == RowState::failed) note += fmt::format(" (code {})", status.code);
    if (status.state == RowState::pending && lost.contains(status.job))
      note += fmt::format("; squeue has no job {} any more: --sweep.action=retry submits the row again", status.job);
    if (!path_exists(folder.row(row))) note = "its folder is missing: was it renamed?";
    table.row({row.name, std::to_string(row.ranks), std::string(name_of(status.state)),
               progress_of(folder.run(row, repeat)), std::to_string(status.attempts), note});
  }
  std::fputs(table.text().c_str(), stdout);
  return 0;
}

}  // namespace tessera
