#include "checkpoint/block_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <optional>

#include "tessera/backend/thread_pool.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

std::uint64_t checksum(const void* data, std::int64_t bytes) {
  return XXH3_64bits(data, static_cast<std::size_t>(bytes));
}

FileRecord record_of(const std::filesystem::path& path) {
  const FileDescriptor file = open_file(path, OpenFor::reading);
  FileRecord record;
  record.name = path.filename().string();
  record.bytes = size_of_file(file, path);
  record.block_bytes = kBlockBytes;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kBlockBytes, record.bytes)));
  for (std::int64_t done = 0; done < record.bytes; done += kBlockBytes) {
    const std::int64_t bytes = std::min(kBlockBytes, record.bytes - done);
    read_at(file, path, done, buffer.data(), bytes);
    record.blocks.push_back(checksum(buffer.data(), bytes));
  }
  return record;
}

std::int64_t bytes_in_block(const FileRecord& record, std::int64_t block) {
  return std::min(record.block_bytes, record.bytes - block * record.block_bytes);
}

void read_block(const FileDescriptor& file, const std::filesystem::path& path, const FileRecord& record,
                std::int64_t block, std::byte* out) {
  const std::int64_t first = block * record.block_bytes, bytes = bytes_in_block(record, block);
  read_at(file, path, first, out, bytes);
  if (checksum(out, bytes) != record.blocks[static_cast<std::size_t>(block)]) {
    throw IoError("{} is damaged (the checksum of its bytes {} to {} is wrong)", path.string(), first,
                  first + bytes - 1);
  }
}

void on_threads(std::int64_t tasks, int threads, const std::function<void(std::int64_t, int)>& task) {
  const auto count = static_cast<int>(std::clamp<std::int64_t>(tasks, 1, std::max(threads, 1)));
  std::optional<ThreadPool> pool;
  try {
    pool.emplace(count);
  } catch (const IoError&) {  // the system starts no more threads, so that this one does all tasks
    pool.emplace(1);
  }
  pool->parallel_for(tasks, task);
}

}  // namespace tessera
