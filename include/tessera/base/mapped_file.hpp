#pragma once
// A file mapped for reading.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace tessera {

class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the whole file (IoError if that fails); an empty file is an empty span.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// An open file descriptor for reading.
class ReadDescriptor {
 public:
  /// IoError when the file cannot be opened.
  explicit ReadDescriptor(const std::filesystem::path& file);
  ~ReadDescriptor();
  ReadDescriptor(const ReadDescriptor&) = delete;
  ReadDescriptor& operator=(const ReadDescriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Reads bytes [first, first + out.size()) of `file` without keeping it open. IoError when it is shorter.
void read_at(const std::filesystem::path& file, std::int64_t first, std::span<std::byte> out);

}  // namespace tessera
