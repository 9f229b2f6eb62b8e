#pragma once
// Reads safetensors files (format: https://huggingface.co/docs/safetensors):
//   8 bytes little-endian header size
//   a JSON header {"NAME": {"dtype", "shape", "data_offsets"}, "__metadata__": {text: text}}
//   the tensors' bytes, row-major, without holes

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/base/mapping.hpp"

namespace tessera {

/// One tensor of a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;           ///< as the file spells it: "F32", "BF16", "U8", ...
  std::optional<DType> dtype;       ///< fp32, bf16 or fp16: the types that read_slice can read
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::int64_t elements = 0;
  std::int64_t first_byte = 0, bytes = 0;  ///< relative to the end of the header
};

/// The contents of a header; entries in alphabetical order.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Parses a header's JSON text and checks it against the size of the data: shapes and types must fit their sizes, and
/// tensors must cover the data without overlaps or holes. `file` is for messages. Throws UsageError.
SafetensorsHeader parse_safetensors_header(std::span<const char> text, std::int64_t data_bytes,
                                           const std::string& file);

/// A file, mapped into memory. Reading is thread-safe. If a file is truncated while it is mapped, the process ends
/// (SIGBUS), as with all mapped files.
class SafetensorsFile {
 public:
  /// Throws UsageError if the file is missing or is not a proper safetensors file, and IoError if it cannot be read.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Returns null if there is no such tensor.
  const SafetensorsEntry* find(const std::string& name) const;

  /// Reads elements [first, first + out.size()) of a tensor, row-major, widened to fp32 (exact). Throws UsageError
  /// naming the tensor if it is missing, is not F32, BF16 or F16, or does not have these elements.
  void read_slice(const std::string& name, std::int64_t first, std::span<float> out) const;

 private:
  std::filesystem::path path_;
  SafetensorsHeader header_;
  Mapping mapping_;
  const std::byte* data_ = nullptr;  ///< the first byte after the header
};

}  // namespace tessera
