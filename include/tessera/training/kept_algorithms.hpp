#pragma once
// RUN/gemm_algorithms.txt: the algorithms of a GPU's matmuls, so that a restart gives the same bits. Rank 0 only.

#include <filesystem>
#include <string>

namespace tessera {

/// Returns the text that an earlier part of the run kept; empty if there is none. Throws IoError.
std::string kept_algorithms(const std::filesystem::path& run_folder);
/// Replaces the file if it would change; an empty text leaves it. Throws IoError.
void keep_algorithms(const std::filesystem::path& run_folder, const std::string& text);

}  // namespace tessera
