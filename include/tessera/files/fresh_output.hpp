#pragma once
// Folders and files that exist only once they are complete.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "tessera/files/byte_file.hpp"

namespace tessera {

/// A folder that is written beside its name, in one that nothing else uses. Unfinished, it is removed.
class FreshFolder {
 public:
  /// UsageError if PATH exists and is no empty folder (a link to one is none).
  explicit FreshFolder(std::filesystem::path path);
  ~FreshFolder();
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  /// Where to write.
  const std::filesystem::path& beside() const { return beside_; }
  /// Gives it its name.
  void finish();

 private:
  std::filesystem::path path_, beside_;
  bool finished_ = false;
};

/// The same for a file.
class FreshFile {
 public:
  /// UsageError if PATH exists.
  explicit FreshFile(std::filesystem::path path);
  ~FreshFile();
  FreshFile(const FreshFile&) = delete;
  FreshFile& operator=(const FreshFile&) = delete;
  /// Where to write; nothing is there yet.
  const std::filesystem::path& beside() const { return beside_; }
  /// Gives it its name, when it is on disk. IoError.
  void finish();

 private:
  std::filesystem::path path_, beside_;
  bool finished_ = false;
};

/// A file that is written from its start to its end.
class SequentialFile {
 public:
  /// Creates PATH, at which nothing may be. IoError.
  explicit SequentialFile(std::filesystem::path path);
  void append(const void* data, std::int64_t bytes);
  /// Waits until it is on disk.
  void finish();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t at_ = 0;
};

}  // namespace tessera
