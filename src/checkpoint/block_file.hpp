#pragma once
// The files of a checkpoint in blocks, each with a checksum.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "tessera/checkpoint/records.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

/// Bytes that one checksum covers.
inline constexpr std::int64_t kBlockBytes = 1 << 20;

std::uint64_t checksum(const void* data, std::int64_t bytes);
/// Returns name, size and checksums of a finished file.
FileRecord record_of(const std::filesystem::path& path);

/// Returns the bytes of block `block` of a file.
std::int64_t bytes_in_block(const FileRecord& record, std::int64_t block);
/// Reads block `block` into `out` (capacity record.block_bytes) and compares its checksum. Throws IoError.
void read_block(const FileDescriptor& file, const std::filesystem::path& path, const FileRecord& record,
                std::int64_t block, std::byte* out);

/// Calls task(i, thread) for i = 0 .. tasks-1, assigned in order to `threads` threads; rethrows the first exception
/// when all have stopped.
void on_threads(std::int64_t tasks, int threads, const std::function<void(std::int64_t, int)>& task);

}  // namespace tessera
