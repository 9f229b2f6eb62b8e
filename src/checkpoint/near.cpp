#include "tessera/checkpoint/near.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "checkpoint/block_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

/// Returns whether a path is a folder, not a link to one, that only this user can read or change: anybody may make a
/// folder of any name in /dev/shm.
bool is_own(const std::filesystem::path& folder) {
  struct stat status {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

}  // namespace

std::filesystem::path near_folder(const std::string& keep_near, const std::filesystem::path& checkpoints) {
  if (keep_near == "none") return {};
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(checkpoints, error);
  const std::filesystem::path real = std::filesystem::weakly_canonical(whole, error);
  const std::string run = (error ? whole : real).string();
  return std::filesystem::path(keep_near == "auto" ? kMemoryFolder : keep_near) /
         fmt::format("tessera-{}-{:016x}", ::geteuid(), checksum(run.data(), std::ssize(run)));
}

std::filesystem::path near_step(const std::filesystem::path& near, std::int64_t step) {
  std::filesystem::path folder = CheckpointFolder(near).of_step(step);
  return is_own(near) && is_own(folder) ? folder : std::filesystem::path();
}

void prune_near(const std::filesystem::path& near, std::int64_t keep) {
  if (!is_own(near)) return;
  const std::filesystem::path kept = CheckpointFolder(near).of_step(keep);
  std::error_code ignored;
  for (const std::string& name : names_in(near, ignored)) {
    if (near / name != kept) std::filesystem::remove_all(near / name, ignored);
  }
  ::rmdir(near.c_str());  // which fails if something is left
}

std::int64_t most_bytes_near(const std::vector<TensorRecord>& tensors, std::int64_t ranks_per_node,
                             std::int64_t world) {
  std::int64_t bytes = 0;
  for (const TensorRecord& tensor : tensors) {
    for (const StateKind kind : kinds_of(StateContent::full))
      bytes += tensor.keeps(kind) ? tensor.elements * size_of(dtype_of(kind, tensor.moments)) : 0;
  }
  return 2 * ceil_div(bytes, world) * std::min(ranks_per_node, world);
}

NearFile::NearFile(const std::filesystem::path& near, std::int64_t step, const std::string& name)
    : path_(CheckpointFolder(near).of_step(step) / name), beside_(path_.string() + ".tmp"), file_(-1) {
  std::error_code ignored;  // what follows says what is wrong
  std::filesystem::create_directories(near.parent_path(), ignored);
  for (const std::filesystem::path& folder : {near, path_.parent_path()}) {
    if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
      failure_ = fmt::format("cannot create folder {} ({})", folder.string(), last_error());
    else if (!is_own(folder))
      failure_ = fmt::format("{} is not a folder of this user alone", folder.string());
    if (!failure_.empty()) return;
  }
  file_ = FileDescriptor(::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) failure_ = fmt::format("cannot create {} ({})", beside_.string(), last_error());
}

NearFile::~NearFile() {
  if (file_) ::unlink(beside_.c_str());
}

void NearFile::write(std::int64_t offset, const void* data, std::int64_t bytes) {
  if (!file_) return;
  try {
    write_at(file_, beside_, offset, data, bytes);
  } catch (const IoError& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
  }
}

std::string NearFile::finish() {
  if (!failure_.empty()) return failure_;
  if (::rename(beside_.c_str(), path_.c_str()) != 0)
    return fmt::format("cannot rename {} ({})", beside_.string(), last_error());
  file_.reset();
  return {};
}

}  // namespace tessera
