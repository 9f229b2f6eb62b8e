#include "comm/mpi/process_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <system_error>
#include <utility>

#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/mapping.hpp"

namespace tessera {

namespace {

class MappedMemory final : public SharedMemory {
 public:
  /// `file` stays open as long as peers may want to open it through this process.
  MappedMemory(FileDescriptor file, std::int64_t bytes, bool writable)
      : file_(std::move(file)), mapping_(map_file(file_.get(), bytes, writable)) {
    if (!mapping_)
      throw IoError("cannot map {} bytes of shared memory ({})", bytes, std::generic_category().message(errno));
  }
  std::byte* data() const override { return mapping_.get().data; }
  std::int64_t size() const override { return mapping_.get().size; }

 private:
  FileDescriptor file_;
  Mapping mapping_;
};

/// Identifies an open file among all others of this machine.
std::string identity(const FileDescriptor& file) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0)
    throw IoError("cannot examine shared memory ({})", std::generic_category().message(errno));
  return fmt::format("{}:{}:{}", status.st_dev, status.st_ino, status.st_size);
}

[[noreturn]] void cannot_open(const std::string& path, const std::string& why) {
  throw CommunicationError(
      "cannot open the memory of a peer ({}: {}). Ranks of a node must run as one user and see each other's processes.",
      path, why);
}

}  // namespace

MemoryExchange::Offer ProcessMemory::create(std::int64_t bytes) {
  // Writing to a shared page that the machine lacks raises SIGBUS, so all pages are asked for now.
  const std::int64_t usable = usable_memory();
  if (bytes > usable) {
    throw IoError("{} bytes of shared memory are needed and {} are free. Use fewer ranks per node, or shard further.",
                  bytes, usable);
  }
  FileDescriptor file(memfd_create("tessera", MFD_CLOEXEC));
  if (!file) throw IoError("cannot make shared memory (memfd_create: {})", std::generic_category().message(errno));
  int error = EINTR;  // a signal may come while pages are zeroed
  while (error == EINTR) error = posix_fallocate(file.get(), 0, bytes);
  if (error != 0) {
    throw IoError("cannot get {} bytes of shared memory ({}). Use fewer ranks per node, or shard further.", bytes,
                  std::generic_category().message(error));
  }
  std::string token = fmt::format("/proc/{}/fd/{} {}", getpid(), file.get(), identity(file));
  return {std::make_shared<MappedMemory>(std::move(file), bytes, true), std::move(token)};
}

std::shared_ptr<SharedMemory> ProcessMemory::open(const std::string& token, std::int64_t bytes, bool writable) {
  std::istringstream words(token);
  std::string path, offered;
  words >> path >> offered;
  FileDescriptor file(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!file) cannot_open(path, std::generic_category().message(errno));
  // In containers with their own process numbers the path may be a file of this very process.
  if (identity(file) != offered) cannot_open(path, "it is another file than the peer's");
  return std::make_shared<MappedMemory>(std::move(file), bytes, writable);
}

}  // namespace tessera
