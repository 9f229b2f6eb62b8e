#include "checkpoint/open_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "tessera/files/byte_file.hpp"

namespace tessera {

std::shared_ptr<const FileDescriptor> OpenFiles::get(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(recent_.begin(), recent_.end(), [&](const Entry& one) { return one.first == path; });
  if (place != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, place);
    return recent_.front().second;
  }
  if (recent_.size() >= most_) recent_.pop_back();
  for (;;) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file) {
      recent_.emplace_front(path, std::make_shared<const FileDescriptor>(std::move(file)));
      return recent_.front().second;
    }
    // This process may open fewer files than the cache keeps: closes unused ones.
    if ((errno != EMFILE && errno != ENFILE) || recent_.empty()) fail_to_read("open", path);
    recent_.pop_back();
  }
}

}  // namespace tessera
