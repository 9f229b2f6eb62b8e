#include "checkpoint/block_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/threads.hpp"

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
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&](int thread) {
    try {
      for (std::int64_t i = next++; i < tasks && !failed; i = next++) task(i, thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      failed = true;
    }
  };
  std::vector<std::thread> others;
  const int count = static_cast<int>(std::min<std::int64_t>(threads, tasks));
  try {
    for (int thread = 1; thread < count; ++thread) {
      others.push_back(start_thread("block reader", [&work, thread] { work(thread); }));
    }
  } catch (const IoError&) {  // the threads that did start do all tasks
  }
  work(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
