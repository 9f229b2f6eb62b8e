#pragma once
// The corpus as a file, for rows that are commands.

#include <filesystem>

#include "sweep/folder.hpp"

namespace tessera {

/// The corpus of the row's options as llm.c's token file, DIR/data/tokens-CONTENT.bin, written if it is not there;
/// empty where the row's command does not want it.
std::filesystem::path tokens_for(const SweepFolder& folder, const SweepRow& row);

}  // namespace tessera
