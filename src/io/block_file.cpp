#include "io/block_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/threads.hpp"
#include "tessera/io/unreadable_error.hpp"

namespace tessera {

namespace {

std::int64_t size_of(const struct stat& status, const std::filesystem::path& path) {
  if (!S_ISREG(status.st_mode)) throw IoError("{} is not a file", path.string());
  return status.st_size;
}

}  // namespace

void fail_to_read(const char* what, const std::filesystem::path& path) {
  const int error = errno;
  const std::string text =
      fmt::format("cannot {} {} ({})", what, path.string(), std::generic_category().message(error));
  for (const int missing : {ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EISDIR})
    if (error == missing) throw IoError("{}", text);
  throw UnreadableError("{}", text);
}

FileDescriptor open_file(const std::filesystem::path& path, OpenFor use) {
  FileDescriptor file(::open(path.c_str(), (use == OpenFor::reading ? O_RDONLY : O_RDWR) | O_CLOEXEC));
  if (!file) fail_to_read("open", path);
  return file;
}

std::int64_t size_of_file(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_to_read("read", path);
  return size_of(status, path);
}

std::int64_t size_of_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_to_read("open", path);
  return size_of(status, path);
}

void read_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, void* out,
             std::int64_t bytes) {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t n = ::pread(file.get(), to, static_cast<std::size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_read("read", path);
    if (n == 0) throw IoError("{} ends early ({} bytes are missing at byte {})", path.string(), bytes, offset);
    to += n, offset += n, bytes -= n;
  }
}

void write_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, const void* data,
              std::int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(file.get(), from, static_cast<std::size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
    if (n == 0) throw IoError("cannot write {} (its file system takes no more bytes)", path.string());
    from += n, offset += n, bytes -= n;
  }
}

FileDescriptor open_direct(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
}

void write_direct(const FileDescriptor& direct, const FileDescriptor& file, const std::filesystem::path& path,
                  std::int64_t offset, const void* data, std::int64_t bytes) {
  constexpr std::uintptr_t kAlignment = 4096;
  const auto together =
      static_cast<std::uintptr_t>(offset) | static_cast<std::uintptr_t>(bytes) | reinterpret_cast<std::uintptr_t>(data);
  if (direct && together % kAlignment == 0 &&
      ::pwrite(direct.get(), data, static_cast<std::size_t>(bytes), offset) == bytes) {
    return;
  }
  // Writing all of it again is right after half a write too, and says what is wrong where the disk is.
  write_at(file, path, offset, data, bytes);
}

void reserve_space(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t bytes) {
  if (bytes == 0 || ::fallocate(file.get(), 0, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT)
    throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
}

void sync_file(const FileDescriptor& file, const std::filesystem::path& path) {
  if (::fsync(file.get()) != 0)
    throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
}

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
  } catch (const IoError&) {  // those that there are do all tasks
  }
  work(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
