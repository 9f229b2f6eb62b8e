#pragma once
// Folders, small files that other programs write, and output lines for the user.

#include <filesystem>
#include <optional>
#include <string>

namespace tessera {

/// Reads the full text; nothing if there is no such file. Throws IoError if it cannot be read.
std::optional<std::string> read_small_file(const std::filesystem::path& path);

/// Reads the text after byte `from`, at most its last 64 KB; empty if the file cannot be read.
std::string text_behind(const std::filesystem::path& path, std::int64_t from);

/// Makes a folder and its parents. Throws IoError.
void make_folder(const std::filesystem::path& path);

/// Returns the file's size; 0 if there is none.
std::int64_t size_of(const std::filesystem::path& path);

/// Writes a line to standard output, at once.
void say(const std::string& line);

}  // namespace tessera
