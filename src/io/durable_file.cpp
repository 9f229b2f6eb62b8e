#include "io/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/io/checkpoint_folder.hpp"

namespace tessera {

void sync_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0)
    throw IoError("cannot write {} ({})", path.string(), std::generic_category().message(errno));
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  sync_file(from);
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) throw IoError("cannot rename {} to {} ({})", from.string(), to.string(), error.message());
  sync_folder(to.parent_path());
}

void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::filesystem::path beside = to.string() + ".copy.tmp";
  std::error_code error, ignored;
  std::filesystem::copy_file(from, beside, std::filesystem::copy_options::overwrite_existing, error);
  if (error) {
    std::filesystem::remove(beside, ignored);
    throw IoError("cannot write {} ({})", beside.string(), error.message());
  }
  rename_durably(beside, to);
}

}  // namespace tessera
