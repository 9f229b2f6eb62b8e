#include "io/fresh_output.hpp"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/io/checkpoint_folder.hpp"

namespace tessera {

FreshFolder::FreshFolder(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.filename().empty()) path_ = path_.parent_path();  // "folder/"
  std::error_code error;
  if (std::filesystem::exists(path_, error) && !std::filesystem::is_empty(path_, error)) {
    throw UsageError("{} exists: name a folder that does not, or an empty one", path_.string());
  }
  beside_ = path_.string() + ".tmp";
  std::filesystem::remove_all(beside_, error);
  std::filesystem::create_directories(beside_, error);
  if (error) throw IoError("cannot create folder {} ({})", beside_.string(), error.message());
}

FreshFolder::~FreshFolder() {
  std::error_code ignored;
  if (!finished_) std::filesystem::remove_all(beside_, ignored);
}

void FreshFolder::finish() {
  sync_folder(beside_);
  if (::rename(beside_.c_str(), path_.c_str()) != 0)
    throw IoError("cannot rename {} to {} ({})", beside_.string(), path_.string(),
                  std::generic_category().message(errno));
  finished_ = true;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

SequentialFile::SequentialFile(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (!file_) throw IoError("cannot create {} ({})", path_.string(), std::generic_category().message(errno));
}

void SequentialFile::append(const void* data, std::int64_t bytes) {
  write_at(file_, path_, at_, data, bytes);
  at_ += bytes;
}

void SequentialFile::finish() { sync_file(file_, path_); }

}  // namespace tessera
