#pragma once
// The words that start a row.

#include <filesystem>
#include <string>
#include <vector>

#include "sweep/rows.hpp"

namespace tessera {

/// Returns the path of this executable.
std::filesystem::path own_executable();

/// Returns the folder of the programs that train with PyTorch: this installation's, or that of the sources around the
/// build; empty if there is none.
std::filesystem::path peers_folder();

/// Returns the words in front of `tessera train` for `ranks` ranks: sweep.launcher, {ranks} replaced. `auto`: srun
/// within a Slurm job, else mpiexec; nothing for one rank if there is none. UsageError if there is none for several.
std::vector<std::string> launcher_words(const std::string& launcher, std::int64_t ranks);

/// Returns `tessera train` with a row's config.ini, into `run`.
std::vector<std::string> train_words(const std::string& launcher, std::int64_t ranks,
                                     const std::filesystem::path& config, const std::filesystem::path& run);

/// Splits a command into words; a part between quotes is one word, without a shell. Replaced within words are {ranks},
/// {run} and {row} (its folders), {tokens}, {peers} (peers_folder), the row's options, {section.key}, and half of its
/// steps, {train.steps/2}. {tessera} is this executable behind the launcher's words: as words, or within a word as a
/// shell reads them. UsageError for other names in braces.
std::vector<std::string> command_words(const SweepRow& row, const std::string& launcher,
                                       const std::filesystem::path& run, const std::filesystem::path& tokens);
/// Returns whether it needs the corpus as a file.
bool wants_tokens(const SweepRow& row);

/// Joins words as a shell would read them.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace tessera
