#pragma once
// A file mapped for reading.

#include <cstddef>
#include <filesystem>
#include <span>

#include "tessera/base/mapping.hpp"

namespace tessera {

class MappedFile {
 public:
  MappedFile() = default;
  /// Maps the whole file (IoError if that fails); an empty file is an empty span.
  explicit MappedFile(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const {
    return {mapping_.get().data, static_cast<std::size_t>(mapping_.get().size)};
  }

 private:
  Mapping mapping_;
};

}  // namespace tessera
