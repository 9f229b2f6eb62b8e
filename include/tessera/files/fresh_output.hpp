#pragma once
// Folders and files that exist only once they are complete.

#include <cstdint>
#include <filesystem>
#include <utility>

#include "tessera/files/byte_file.hpp"

namespace tessera {

/// A file or a folder that is written under another, unique name, and that is removed if it is never finished.
class FreshOutput {
 public:
  ~FreshOutput();
  FreshOutput(const FreshOutput&) = delete;
  FreshOutput& operator=(const FreshOutput&) = delete;
  /// Returns the path to write at.
  const std::filesystem::path& beside() const { return beside_; }
  /// Renames it to its final name, when it is on disk. IoError.
  void finish();

 protected:
  explicit FreshOutput(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_, beside_;

 private:
  bool finished_ = false;
};

struct FreshFolder : FreshOutput {
  /// Makes the folder beside PATH. Throws UsageError if PATH exists, unless it is an empty folder (and not a link to
  /// one).
  explicit FreshFolder(std::filesystem::path path);
};

struct FreshFile : FreshOutput {
  /// Makes nothing yet: the caller creates the file at beside(). Throws UsageError if PATH exists.
  explicit FreshFile(const std::filesystem::path& path);
};

struct ReplacedFile : FreshOutput {
  /// Makes nothing yet, as above: at finish() the file takes the place of the one at PATH. Rests of another are
  /// removed.
  explicit ReplacedFile(const std::filesystem::path& path);
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
