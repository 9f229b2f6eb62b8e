#pragma once
// Plain reads and writes of byte ranges of a file.

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "tessera/base/file_descriptor.hpp"

namespace tessera {

enum class OpenFor : std::uint8_t { reading, writing };
/// Throws what errno says of a file that could not be opened or read: UnreadableError, or IoError where nothing is
/// there.
[[noreturn]] void fail_to_read(const char* what, const std::filesystem::path& path);
/// An existing file. IoError.
FileDescriptor open_file(const std::filesystem::path& path, OpenFor use);
std::int64_t size_of_file(const FileDescriptor& file, const std::filesystem::path& path);
/// The same without opening it.
std::int64_t size_of_file(const std::filesystem::path& path);

/// All `bytes` bytes from `offset` on; IoError naming the file, also when it ends early.
void read_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, void* out,
             std::int64_t bytes);
void write_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, const void* data,
              std::int64_t bytes);
/// Writes `text` where the file stands, in one write(2) unless the disk is full or a signal comes in between. IoError.
void write_all(const FileDescriptor& file, const std::filesystem::path& path, std::string_view text);
/// The same file past the page cache (O_DIRECT); invalid where its file system cannot.
FileDescriptor open_direct(const std::filesystem::path& path);
/// write_at() past the page cache if `direct` is valid and place, length and address are multiples of 4096; anything
/// else, also what fails there, goes the usual way.
void write_direct(const FileDescriptor& direct, const FileDescriptor& file, const std::filesystem::path& path,
                  std::int64_t offset, const void* data, std::int64_t bytes);
/// Takes the space of the file's first `bytes` bytes, so that a full disk shows before the work and the file lies in
/// one piece; nothing where the file system cannot.
void reserve_space(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t bytes);
/// Waits until the file is on disk.
void sync_file(const FileDescriptor& file, const std::filesystem::path& path);

}  // namespace tessera
