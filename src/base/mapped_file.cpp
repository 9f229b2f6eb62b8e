#include "tessera/base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"

namespace tessera {

ReadDescriptor::ReadDescriptor(const std::filesystem::path& file)
    : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw IoError("{}: cannot be opened ({})", file.string(), std::generic_category().message(errno));
}

ReadDescriptor::~ReadDescriptor() { ::close(descriptor_); }

MappedFile::MappedFile(const std::filesystem::path& file) {
  const ReadDescriptor descriptor(file);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    throw IoError("{}: cannot be examined ({})", file.string(), std::generic_category().message(errno));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED)
    throw IoError("{}: cannot be mapped ({})", file.string(), std::generic_category().message(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void read_at(const std::filesystem::path& file, std::int64_t first, std::span<std::byte> out) {
  const ReadDescriptor descriptor(file);
  while (!out.empty()) {
    const auto got = ::pread(descriptor.get(), out.data(), out.size(), first);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError("{}: cannot be read ({})", file.string(), std::generic_category().message(errno));
    if (got == 0)
      throw IoError("{}: ended {} bytes too early (it became shorter while in use)", file.string(), out.size());
    out = out.subspan(static_cast<std::size_t>(got));
    first += got;
  }
}

}  // namespace tessera
