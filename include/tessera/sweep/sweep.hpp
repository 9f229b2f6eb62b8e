#pragma once
// `tessera sweep`: several runs from one file.

#include <filesystem>
#include <vector>

#include "tessera/config/settings.hpp"

namespace tessera {

/// Runs sweep.action on the rows of `file`; `arguments`, those of the command line, override it. Starts processes and
/// reads files; all state is in the folders of the rows (src/sweep/folder.hpp). Returns the exit code: 0 if all rows
/// are done, do not fit or are skipped, otherwise that of the first other row. Throws UsageError, before anything is
/// started, if the file or one of its rows is impossible.
int run_sweep(const std::filesystem::path& file, const std::vector<Setting>& arguments);

}  // namespace tessera
