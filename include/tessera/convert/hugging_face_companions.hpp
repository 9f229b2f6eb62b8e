#pragma once
// Companion files of a Hugging Face folder's weights, which have no meaning here. They are the tokenizer, the
// generation settings, and the keys of config.json that say nothing about the arithmetic. A run and an imported
// checkpoint keep them in a folder hugging_face/, so that an export has them again.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

inline constexpr const char* kCompanionFolder = "hugging_face";

/// Lists the dropouts above 0 in config.json of companions_at(FOLDER), "resid_pdrop = 0.1, ..."; empty for none.
std::string dropouts_of(const std::filesystem::path& folder);

/// Returns the folder with the companions of PATH. A Hugging Face folder holds its own; a checkpoint or a run has a
/// folder for them. Empty where there is none.
std::filesystem::path companions_at(const std::filesystem::path& path);

/// The same for a checkpoint, its run, or the folder that its options name with model.from.
std::filesystem::path companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Copies config.json and the companion files of folder `from` into `to`, which is created; nothing where `from` is
/// empty. Returns the names. IoError.
std::vector<std::string> copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tessera
