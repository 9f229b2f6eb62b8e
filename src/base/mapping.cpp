#include "tessera/base/mapping.hpp"

#include <sys/mman.h>

namespace tessera {

namespace {

Mapping map(std::int64_t bytes, int protection, int flags, int file) {
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(bytes), protection, flags, file, 0);
  return memory == MAP_FAILED ? Mapping() : Mapping({static_cast<std::byte*>(memory), bytes});
}

}  // namespace

void Unmap::operator()(MappedPages pages) const { ::munmap(pages.data, static_cast<std::size_t>(pages.size)); }

Mapping map_file(int file, std::int64_t bytes, bool writable) {
  return map(bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file);
}

Mapping map_memory(std::int64_t bytes) {
  return map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

}  // namespace tessera
