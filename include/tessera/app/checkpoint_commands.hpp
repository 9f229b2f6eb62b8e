#pragma once
// `tessera verify`, `inspect`, `index`, `import` and `export`: commands on checkpoints, without ranks. A run's folder
// stands for its newest checkpoint.

#include <filesystem>

#include "tessera/config/options.hpp"

namespace tessera {

/// Reads everything and prints every defect. Exit code 0 or 4.
int run_verify(const std::filesystem::path& path);

/// Prints step, grid, optimizer and options. Prints shape, mean, standard deviation, minimum and maximum of each
/// parameter.
int run_inspect(const std::filesystem::path& path);

/// Writes the tensors.h5 of a checkpoint that was written without it (checkpoint.tensors = false).
int run_index(const std::filesystem::path& path);

/// Imports a Hugging Face folder, or llm.c's model file (its name ends with .bin), as a checkpoint of step 0.
int run_import(const std::filesystem::path& source, const std::filesystem::path& checkpoint);

/// Exports a checkpoint. `target` is a folder, or llm.c's file if its name ends with .bin.
int run_export(const std::filesystem::path& path, const std::filesystem::path& target, const ExportOptions& options);

}  // namespace tessera
