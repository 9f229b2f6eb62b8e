#pragma once
// A POSIX file descriptor that closes itself.

#include <unistd.h>

#include <utility>

namespace tessera {

class FileDescriptor {
 public:
  explicit FileDescriptor(int file) : file_(file) {}
  FileDescriptor(FileDescriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }

 private:
  int file_;
};

}  // namespace tessera
