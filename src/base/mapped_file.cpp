#include "tessera/base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"

namespace tessera {

namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw IoError("{}: cannot be {} ({})", file.string(), what, std::generic_category().message(errno));
}

FileDescriptor open_for_reading(const std::filesystem::path& file) {
  FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) fail(file, "opened");
  return descriptor;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const FileDescriptor descriptor = open_for_reading(file);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail(file, "examined");
  if (status.st_size == 0) return;
  mapping_ = map_file(descriptor.get(), status.st_size, false);
  if (!mapping_) fail(file, "mapped");
}

void read_at(const std::filesystem::path& file, std::int64_t first, std::span<std::byte> out) {
  const FileDescriptor descriptor = open_for_reading(file);
  while (!out.empty()) {
    const auto got = ::pread(descriptor.get(), out.data(), out.size(), first);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(file, "read");
    if (got == 0)
      throw IoError("{}: ended {} bytes too early, because it became shorter while in use", file.string(), out.size());
    out = out.subspan(static_cast<std::size_t>(got));
    first += got;
  }
}

}  // namespace tessera
