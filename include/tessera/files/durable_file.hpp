#pragma once
// Files that are replaced whole and are on disk when a function returns.

#include <filesystem>
#include <string_view>

namespace tessera {

/// Flushes a file's content to disk. IoError.
void sync_file(const std::filesystem::path& path);
/// Flushes a folder's entries to disk; quiet where the file system cannot. IoError.
void sync_folder(const std::filesystem::path& folder);
/// `from`, closed, takes the place of `to` in the same folder. IoError.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
/// `to` becomes a copy of `from`, in one moment for readers. IoError.
void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Replaces a file: written beside it, flushed to disk if `durable`, renamed. A reader sees the old or the new text,
/// never a part. IoError.
void write_text_atomically(const std::filesystem::path& path, std::string_view text, bool durable = true);
/// The same, and where that fails (a full disk) writes over the file that is there, which needs no room. IoError.
void replace_text(const std::filesystem::path& path, std::string_view text, bool durable = true);

}  // namespace tessera
