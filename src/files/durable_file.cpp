#include "tessera/files/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/mapped_file.hpp"

namespace tessera {

namespace {

/// Overwrites in place: the file keeps its disk space until the new text is in it.
void write_over(const std::filesystem::path& path, std::string_view text, bool durable) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) fail_to("open", path);
  write_all(file, path, text);
  if (::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0) fail_to("write", path);
  if (durable) sync_file(file, path);
}

}  // namespace

void sync_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) fail_to("write", path);
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) fail_to("open folder", folder);
  // Some file systems refuse to sync folders; the rename itself is atomic there all the same.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_to("write folder", folder);
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::is_directory(from, error) ? sync_folder(from) : sync_file(from);
  rename_file(from, to);
  sync_folder(to.has_parent_path() ? to.parent_path() : ".");
}

void copy_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::filesystem::path beside = to.string() + ".copy.tmp";
  try {
    const MappedFile source(from);
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) fail_to("create", beside);
    // std::filesystem::copy_file calls a full disk an input/output error.
    write_all(file, beside, {reinterpret_cast<const char*>(source.bytes().data()), source.bytes().size()});
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  rename_durably(beside, to);
}

void write_text_atomically(const std::filesystem::path& path, std::string_view text, bool durable) {
  // The process number keeps writers of the same name apart; the last rename wins.
  const std::filesystem::path beside = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  try {
    const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) fail_to("create", beside);
    write_all(file, beside, text);
    if (durable) sync_file(file, beside);
    rename_file(beside, path);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  if (durable) sync_folder(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

void replace_text(const std::filesystem::path& path, std::string_view text, bool durable) {
  try {
    write_text_atomically(path, text, durable);
  } catch (const IoError& first) {
    try {
      write_over(path, text, durable);
    } catch (const IoError&) {
      throw first;
    }
  }
}

}  // namespace tessera
