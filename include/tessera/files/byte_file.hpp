#pragma once
// Plain reads and writes of byte ranges of a file, and whether it is there.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"

namespace tessera {

/// A file is there, or may be, and the system refused to open or read it: disk, network, permissions, limits. Any other
/// IoError of reading says that the file is missing or is not what was written. Damage is permanent; an unreadable file
/// may be intact.
class UnreadableError : public IoError {
 public:
  using IoError::IoError;
};

/// Returns whether something is at a path that the user gave; UsageError if the system cannot tell (no permission, a
/// loop of links, a name too long).
bool path_exists(const std::filesystem::path& path);

/// Returns the names of what a folder holds, sorted; those before an error if there is one.
std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error);

/// Returns where a link leads if nothing is there; empty for any other path. Its file system may not be mounted.
std::filesystem::path missing_target(const std::filesystem::path& path);

enum class OpenFor : std::uint8_t { reading, writing };
/// Returns the system's words for errno.
std::string last_error();
/// Throws IoError "cannot WHAT PATH (last_error)".
[[noreturn]] void fail_to(const char* what, const std::filesystem::path& path);
/// Throws the errno of a file that could not be opened or read: UnreadableError, or IoError if nothing is there.
[[noreturn]] void fail_to_read(const char* what, const std::filesystem::path& path);
/// Opens an existing file. IoError.
FileDescriptor open_file(const std::filesystem::path& path, OpenFor use);
std::int64_t size_of_file(const FileDescriptor& file, const std::filesystem::path& path);
/// Returns the same without opening it.
std::int64_t size_of_file(const std::filesystem::path& path);

/// Reads all `bytes` bytes from `offset` on; IoError naming the file, also when it ends early.
void read_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, void* out,
             std::int64_t bytes);
/// Reads bytes of a file that was longer, without keeping it open.
void read_at(const std::filesystem::path& path, std::int64_t offset, std::span<std::byte> out);
/// Reads from the start up to the file's end; returns the bytes read.
std::int64_t read_up_to(const FileDescriptor& file, const std::filesystem::path& path, void* out, std::int64_t bytes);
/// Reads all of a text. Returns nothing if the file does not exist, and throws IoError if it cannot be read.
std::optional<std::string> read_small_file(const std::filesystem::path& path);
void write_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, const void* data,
              std::int64_t bytes);
/// Writes `text` at the file's position, in one write(2) unless the disk is full or a signal interrupts it. IoError.
void write_all(const FileDescriptor& file, const std::filesystem::path& path, std::string_view text);
/// Opens the same file past the page cache (O_DIRECT); invalid if its file system cannot.
FileDescriptor open_direct(const std::filesystem::path& path);
/// Writes past the page cache if `direct` is valid and offset, length and address are multiples of 4096. Otherwise, or
/// if that fails, calls write_at().
void write_direct(const FileDescriptor& direct, const FileDescriptor& file, const std::filesystem::path& path,
                  std::int64_t offset, const void* data, std::int64_t bytes);
/// Reserves the file's first `bytes` bytes, so that a full disk shows before the work, and the file is contiguous. Does
/// nothing if the file system cannot.
void reserve_space(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t bytes);
/// Makes a folder, with its parents, if it is not there. IoError.
void make_folder(const std::filesystem::path& path);
/// Renames a file or folder, in place of one that has the name. IoError.
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);
/// Waits until the file is on disk.
void sync_file(const FileDescriptor& file, const std::filesystem::path& path);

}  // namespace tessera
