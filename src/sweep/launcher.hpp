#pragma once
// The words that start a row's program.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/rows.hpp"

namespace tessera {

/// Splits a command into words, without a shell. A part between quotes is within one word, and the other kind of quote
/// is a character there. A backslash stands for the quote, blank or backslash behind it, and else for itself. Throws
/// UsageError where a quote is not closed.
std::vector<std::string> split_words(std::string_view text);

/// Returns the folder of the programs that train with PyTorch: that of this installation, or that of the sources around
/// the build; empty if there is none.
std::filesystem::path peers_folder();

/// Returns the words before `tessera train` for `ranks` ranks: sweep.launcher, with {ranks} replaced. `auto`: srun in a
/// Slurm job, but mpiexec in one of its steps, and else mpiexec; nothing for one rank if there is none. Throws
/// UsageError if there is none for several.
std::vector<std::string> launcher_words(const std::string& launcher, std::int64_t ranks);

/// Returns the words of `tessera train` with a row's config.ini, into `run`.
std::vector<std::string> train_words(const std::string& launcher, std::int64_t ranks,
                                     const std::filesystem::path& config, const std::filesystem::path& run);

/// Returns the words of a row's command (split_words). Replaced within words are {ranks},
/// {run} and {row} (its folders), {tokens}, {peers} (peers_folder), the row's options, {section.key}, and half of its
/// steps, {train.steps/2}. {tessera} is this executable after the launcher's words: as words, or within a word as a
/// shell reads them. Throws UsageError for other names in braces.
std::vector<std::string> command_words(const SweepRow& row, const std::string& launcher,
                                       const std::filesystem::path& run, const std::filesystem::path& tokens);
/// Returns whether the row needs the corpus as a file.
bool wants_tokens(const SweepRow& row);

/// Joins words as a shell would read them.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace tessera
