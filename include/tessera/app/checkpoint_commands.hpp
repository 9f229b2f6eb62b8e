#pragma once
// `tessera verify`, `inspect`, `index`, `import` and `export`: what works on checkpoints, without ranks. Where a
// checkpoint is wanted, a run's folder stands for its newest one.

#include <filesystem>

#include "tessera/config/options.hpp"

namespace tessera {

/// Reads everything and prints what is wrong. Exit code 0 or 4.
int run_verify(const std::filesystem::path& path);

/// Prints step, grid, optimizer, options, and of each parameter shape, mean, standard deviation, least and greatest
/// value.
int run_inspect(const std::filesystem::path& path);

/// Makes the tensors.h5 of a checkpoint that was written without it (checkpoint.tensors = false).
int run_index(const std::filesystem::path& path);

/// A Hugging Face folder, or llm.c's model file (its name ends with .bin), to a checkpoint of step 0.
int run_import(const std::filesystem::path& source, const std::filesystem::path& checkpoint);

/// And back. `target` is a folder, or llm.c's file if its name ends with .bin.
int run_export(const std::filesystem::path& path, const std::filesystem::path& target, const ExportOptions& options);

}  // namespace tessera
