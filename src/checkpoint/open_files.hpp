#pragma once
// Files opened on demand, a few of which stay open, because a checkpoint may have more files than a process may open.

#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "tessera/base/file_descriptor.hpp"

namespace tessera {

class OpenFiles {
 public:
  explicit OpenFiles(std::size_t most) : most_(most) {}
  /// Opens PATH for reading; it stays open as long as the result lives. May be called on any thread. Throws IoError.
  std::shared_ptr<const FileDescriptor> get(const std::filesystem::path& path);

 private:
  using Entry = std::pair<std::filesystem::path, std::shared_ptr<const FileDescriptor>>;
  std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> recent_;  ///< most recently used first
};

}  // namespace tessera
