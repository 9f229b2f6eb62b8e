#include "tessera/files/byte_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// Reads until `bytes` are there or the file ends; returns how many are.
std::int64_t read_some(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, void* out,
                       std::int64_t bytes) {
  std::int64_t got = 0;
  while (got < bytes) {
    const ssize_t n =
        ::pread(file.get(), static_cast<char*>(out) + got, static_cast<std::size_t>(bytes - got), offset + got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to_read("read", path);
    if (n == 0) break;
    got += n;
  }
  return got;
}

std::int64_t size_of(const struct stat& status, const std::filesystem::path& path) {
  if (!S_ISREG(status.st_mode)) throw IoError("{} is not a file", path.string());
  return status.st_size;
}

}  // namespace

bool path_exists(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) throw refusal("{} cannot be used ({})", path.string(), error.message()).hint("Name another path");
  return exists;
}

std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::filesystem::path missing_target(const std::filesystem::path& path) {
  std::error_code error, unseen;
  if (!std::filesystem::is_symlink(path, unseen) || std::filesystem::exists(path, error) || error) return {};
  return std::filesystem::read_symlink(path, unseen);
}

std::string last_error() { return std::generic_category().message(errno); }

void fail_to(const char* what, const std::filesystem::path& path) {
  const std::string why = last_error();
  throw IoError("cannot {} {} ({})", what, path.string(), why);
}

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
  const std::int64_t got = read_some(file, path, offset, out, bytes);
  if (got < bytes)
    throw IoError("{} ends early ({} bytes are missing at byte {})", path.string(), bytes - got, offset + got);
}

void read_at(const std::filesystem::path& path, std::int64_t offset, std::span<std::byte> out) {
  const std::int64_t got = read_some(open_file(path, OpenFor::reading), path, offset, out.data(), std::ssize(out));
  if (got < std::ssize(out))
    throw IoError("{}: ended {} bytes too early, because it became shorter while in use", path.string(),
                  std::ssize(out) - got);
}

std::int64_t read_up_to(const FileDescriptor& file, const std::filesystem::path& path, void* out, std::int64_t bytes) {
  return read_some(file, path, 0, out, bytes);
}

std::optional<std::string> read_small_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
  const FileDescriptor file = open_file(path, OpenFor::reading);
  std::string text(static_cast<std::size_t>(size_of_file(file, path)), '\0');
  text.resize(static_cast<std::size_t>(read_up_to(file, path, text.data(), static_cast<std::int64_t>(text.size()))));
  return text;
}

void write_at(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t offset, const void* data,
              std::int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(file.get(), from, static_cast<std::size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_to("write", path);
    if (n == 0) throw IoError("cannot write {} (its file system takes no more bytes)", path.string());
    from += n, offset += n, bytes -= n;
  }
}

void write_all(const FileDescriptor& file, const std::filesystem::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to("write", path);
    if (written == 0) throw IoError("cannot write {} (its file system takes no more bytes)", path.string());
    text.remove_prefix(static_cast<std::size_t>(written));
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
  // Rewriting all of it is correct after a partial write too, and reports the disk's error.
  write_at(file, path, offset, data, bytes);
}

void reserve_space(const FileDescriptor& file, const std::filesystem::path& path, std::int64_t bytes) {
  if (bytes == 0 || ::fallocate(file.get(), 0, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT) fail_to("write", path);
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError("cannot create folder {} ({})", path.string(), error.message());
}

void rename_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw IoError("cannot rename {} to {} ({})", from.string(), to.string(), last_error());
}

void sync_file(const FileDescriptor& file, const std::filesystem::path& path) {
  if (::fsync(file.get()) != 0) fail_to("write", path);
}

}  // namespace tessera
