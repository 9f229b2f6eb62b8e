#pragma once
// Plain reads and writes of whole byte ranges, and checksums of blocks.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "tessera/base/file_descriptor.hpp"
#include "tessera/io/checkpoint.hpp"

namespace tessera {

/// Bytes that one checksum covers.
inline constexpr std::int64_t kBlockBytes = 1 << 20;

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

std::uint64_t checksum(const void* data, std::int64_t bytes);
/// Name, size and checksums of a finished file.
FileRecord record_of(const std::filesystem::path& path);

/// Bytes of block `block` of a file.
std::int64_t bytes_in_block(const FileRecord& record, std::int64_t block);
/// Reads block `block` into `out` (record.block_bytes of room) and compares its checksum. IoError.
void read_block(const FileDescriptor& file, const std::filesystem::path& path, const FileRecord& record,
                std::int64_t block, std::byte* out);

/// Calls task(i, thread) for i = 0 .. tasks-1, dealt in order to `threads` threads; rethrows the first exception when
/// all have stopped.
void on_threads(std::int64_t tasks, int threads, const std::function<void(std::int64_t, int)>& task);

}  // namespace tessera
