#pragma once
// Folders and files that exist only once they are complete.

#include <cstdint>
#include <filesystem>

#include "tessera/files/byte_file.hpp"

namespace tessera {

/// A folder that is written under another, unique name. Unfinished, it is removed.
class FreshFolder {
 public:
  /// UsageError if PATH exists and is not an empty folder (a link to one is not).
  explicit FreshFolder(std::filesystem::path path);
  ~FreshFolder();
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  /// Returns the folder to write in.
  const std::filesystem::path& beside() const { return beside_; }
  /// Renames it to its final name.
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
  /// Returns the path to write at; nothing is there yet.
  const std::filesystem::path& beside() const { return beside_; }
  /// Renames it to its final name, when it is on disk. IoError.
  void finish();

 private:
  std::filesystem::path path_, beside_;
  bool finished_ = false;
};

/// A file that is written from its start to its end.
class SequentialFile {
 public:
  /// Creates PATH, which must not exist. IoError.
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
