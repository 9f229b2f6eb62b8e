#pragma once
// The corpus as a file, for rows that are commands.

#include <filesystem>

#include "sweep/folder.hpp"

namespace tessera {

/// Returns the corpus of the row's options as llm.c's token file, DIR/data/tokens-CONTENT.bin, written if it does not
/// exist yet. Empty if the row's command does not need it.
std::filesystem::path tokens_for(const SweepFolder& folder, const SweepRow& row);

}  // namespace tessera
