#pragma once
// What lies beside the weights of a Hugging Face folder and has no meaning here: the tokenizer, the generation
// settings, and the keys of config.json that say nothing about the arithmetic. A run and an imported checkpoint keep
// it in a folder hugging_face/, so that an export has it again.

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

inline constexpr const char* kCompanionFolder = "hugging_face";

/// The dropouts above 0 that config.json of companions_at(FOLDER) names, "resid_pdrop = 0.1, ..."; empty for none.
std::string dropouts_of(const std::filesystem::path& folder);

/// The folder with the companions of what was at PATH: of a Hugging Face folder itself, of a checkpoint or a run the
/// one kept there. Empty where there is none.
std::filesystem::path companions_at(const std::filesystem::path& path);

/// The same for a checkpoint, its run, or the folder that its options name with model.from.
std::filesystem::path companions_of(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Copies config.json and the companion files of folder `from` into `to`, which is created; nothing where `from` is
/// empty. Returns the names. IoError.
std::vector<std::string> copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tessera
