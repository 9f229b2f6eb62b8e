#include "tessera/files/fresh_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

namespace {

/// Returns the type of PATH itself, not of a link's target; UsageError if the system cannot tell.
std::filesystem::file_type type_at(const std::filesystem::path& path) {
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (error && type != std::filesystem::file_type::not_found)
    throw refusal("{} cannot be used ({})", path.string(), error.message()).hint("Name another path");
  return type;
}

/// Makes names next to PATH: unique to this process, and different each time.
std::filesystem::path beside_name(const std::filesystem::path& path, int number) {
  return fmt::format("{}.{}-{}.tmp", path.string(), ::getpid(), number);
}

}  // namespace

FreshOutput::~FreshOutput() {
  std::error_code ignored;
  if (!finished_) std::filesystem::remove_all(beside_, ignored);
}

void FreshOutput::finish() {
  rename_durably(beside_, path_);
  finished_ = true;
}

FreshFolder::FreshFolder(std::filesystem::path path) : FreshOutput(std::move(path)) {
  if (path_.filename().empty()) path_ = path_.parent_path();  // "folder/"
  const auto type = type_at(path_);
  std::error_code error;
  const bool is_free = type == std::filesystem::file_type::not_found ||
                       (type == std::filesystem::file_type::directory && std::filesystem::is_empty(path_, error));
  if (!is_free) throw refusal("{} exists", path_.string()).hint("Name a folder that does not exist, or an empty one");
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  for (int number = 0;; ++number) {
    beside_ = beside_name(path_, number);
    if (::mkdir(beside_.c_str(), 0777) == 0) break;
    if (errno != EEXIST) fail_to("create folder", beside_);
  }
}

FreshFile::FreshFile(const std::filesystem::path& path) : FreshOutput(path) {
  if (type_at(path_) != std::filesystem::file_type::not_found)
    throw refusal("{} exists", path_.string()).hint("Name a file that does not exist");
  int number = 0;
  do {
    beside_ = beside_name(path_, number++);
  } while (type_at(beside_) != std::filesystem::file_type::not_found);
}

ReplacedFile::ReplacedFile(const std::filesystem::path& path) : FreshOutput(path) {
  beside_ = path.string() + ".tmp";
  std::error_code ignored;
  std::filesystem::remove(beside_, ignored);
}

SequentialFile::SequentialFile(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_) fail_to("create", path_);
}

void SequentialFile::append(const void* data, std::int64_t bytes) {
  write_at(file_, path_, at_, data, bytes);
  at_ += bytes;
}

void SequentialFile::finish() { sync_file(file_, path_); }

}  // namespace tessera
