#pragma once
// Files that are replaced as a whole and are on disk when a function returns.

#include <filesystem>
#include <string_view>

namespace tessera {

/// Flushes a file's content to disk. IoError.
void sync_file(const std::filesystem::path& path);
/// Flushes a folder's entries to disk; quiet if the file system cannot. IoError.
void sync_folder(const std::filesystem::path& folder);
/// Renames `from`, a closed file or a folder, to `to` in the same folder, when it is on disk. IoError.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
/// Makes `to` a copy of `from`, atomically for readers. IoError.
void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Replaces a file: written under another name, flushed to disk if `durable`, renamed. A reader sees the old or the new
/// text, never a part. IoError.
void write_text_atomically(const std::filesystem::path& path, std::string_view text, bool durable = true);
/// The same. If that fails (a full disk), overwrites the existing file, which needs no space. IoError.
void replace_text(const std::filesystem::path& path, std::string_view text, bool durable = true);

}  // namespace tessera
