#pragma once
// Texts that other programs write, and output lines for the user.

#include <filesystem>
#include <string>

namespace tessera {

/// Reads the text after byte `from`, at most its last 64 KB; empty if the file cannot be read.
std::string text_behind(const std::filesystem::path& path, std::int64_t from);

/// Returns the file's size; 0 if there is none.
std::int64_t size_of(const std::filesystem::path& path);

/// Writes a line to standard output, at once.
void say(const std::string& line);

}  // namespace tessera
