#pragma once
// Files that are replaced whole and are on disk when a function returns.

#include <filesystem>

namespace tessera {

/// Flushes a file's content to disk. IoError.
void sync_file(const std::filesystem::path& path);
/// `from`, closed, takes the place of `to` in the same folder. IoError.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
/// `to` becomes a copy of `from`, in one moment for readers. IoError.
void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tessera
