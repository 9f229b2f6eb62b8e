#include "tessera/formats/safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "tessera/base/file_descriptor.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kSizeBytes = 8;

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) throw refusal("{} does not exist", path.string());
  if (!file) fail_to("open", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_to("read", path);
  if (!S_ISREG(status.st_mode)) throw refusal("{} is not a file", path.string());
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kSizeBytes)
    throw refusal("{} is not a safetensors file", path.string()).because("it has only {} bytes", size);

  mapping_ = map_file(file.get(), static_cast<std::int64_t>(size), false);
  if (!mapping_) fail_to("map", path);
  const std::byte* const mapped = mapping_.get().data;
  if (std::string_view(reinterpret_cast<const char*>(mapped), size).starts_with("version https://git-lfs"))
    throw refusal("{} is only a pointer of Git LFS to the weights", path.string()).use("git lfs pull to get them");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, mapped, kSizeBytes);
  if (header_bytes > size - kSizeBytes || header_bytes > kLargestHeader) {
    throw refusal("{} is not a proper safetensors file", path.string())
        .because("its header claims {} bytes, but the file has {}", header_bytes, size);
  }
  data_ = mapped + kSizeBytes + header_bytes;
  header_ = parse_safetensors_header({reinterpret_cast<const char*>(mapped + kSizeBytes), header_bytes},
                                     static_cast<std::int64_t>(size - kSizeBytes - header_bytes), path.string());
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto place =
      std::lower_bound(header_.entries.begin(), header_.entries.end(), name,
                       [](const SafetensorsEntry& entry, const std::string& key) { return entry.name < key; });
  return place != header_.entries.end() && place->name == name ? &*place : nullptr;
}

void SafetensorsFile::read_slice(const std::string& name, std::int64_t first, std::span<float> out) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) throw refusal("{} has no tensor {}", path_.string(), name);
  if (!entry->dtype) {
    throw refusal("tensor {} of {} has dtype {}, which cannot be read", name, path_.string(), entry->dtype_name)
        .use("F32, BF16 or F16");
  }
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || first > entry->elements || count > entry->elements - first) {
    throw refusal("tensor {} of {} has only {} elements, so that {} from element {} on cannot be read", name,
                  path_.string(), entry->elements, count, first);
  }
  if (count == 0) return;
  const std::byte* from = data_ + entry->first_byte + first * size_of(*entry->dtype);
  convert(from, *entry->dtype, out.data(), DType::fp32, count);
}

}  // namespace tessera
