#pragma once
// Folders, and small files that others write.

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// The whole text; nothing where there is no such file. IoError where it cannot be read.
std::optional<std::string> read_small_file(const std::filesystem::path& path);

/// What lies behind byte `from`, at most the last 64 KB of it; empty where the file cannot be read.
std::string text_behind(const std::filesystem::path& path, std::int64_t from);

/// Makes a folder and those above it. IoError.
void make_folder(const std::filesystem::path& path);

/// 0 where there is none.
std::int64_t size_of(const std::filesystem::path& path);

}  // namespace tessera
