#include <cstdint>
#include <cstring>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/files/mapped_file.hpp"

namespace tessera {

namespace {

constexpr std::string_view kCollection{"GCOL\1", 5};
constexpr std::size_t kHeader = 16;  ///< of a collection, and of an object

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// Returns whether objects fill a collection; its last bytes may be too few for another one.
bool is_filled(std::string_view collection) {
  for (std::string_view rest = collection.substr(kHeader); rest.size() >= kHeader;) {
    const bool is_free_space = number_at<std::uint16_t>(rest, 0) == 0;
    const auto size = number_at<std::uint64_t>(rest, 8);
    if (size > rest.size()) return false;
    const std::size_t taken = is_free_space ? size : kHeader + (size + 7) / 8 * 8;
    if (taken < kHeader || taken > rest.size()) return false;
    rest.remove_prefix(taken);
  }
  return true;
}

}  // namespace

void check_hdf5_heaps(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (std::size_t at = 0; (at = bytes.find(kCollection, at)) != std::string_view::npos; ++at) {
    const std::string_view rest = bytes.substr(at);
    const auto size = rest.size() < kHeader ? 0 : number_at<std::uint64_t>(rest, 8);
    if (size < kHeader || size > rest.size() || !is_filled(rest.substr(0, size)))
      throw IoError("{} is damaged: the heap at byte {} has sizes that do not fit", path.string(), at);
  }
}

}  // namespace tessera
