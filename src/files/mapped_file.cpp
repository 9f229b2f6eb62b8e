#include "tessera/files/mapped_file.hpp"

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor file = open_file(path, OpenFor::reading);
  const std::int64_t size = size_of_file(file, path);
  if (size == 0) return;
  mapping_ = map_file(file.get(), size, false);
  if (!mapping_) fail_to("map", path);
}

}  // namespace tessera
