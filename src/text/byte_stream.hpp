#pragma once
// The bytes of a file, decompressed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "text/source_files.hpp"

namespace tessera {

/// Reads a file once, from its start to its end, in bounded memory.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads up to `bytes` (> 0) bytes; 0 at the end only. UsageError for damaged or truncated compression. IoError for a
  /// file that cannot be read. IoError also if it is not as its `state` says, when it is opened or has ended.
  virtual std::size_t read(char* out, std::size_t bytes) = 0;
  /// Returns how many bytes of the file itself were read.
  virtual std::int64_t taken() const = 0;
  /// Returns, at the end, what of the file was left out; empty if nothing was.
  virtual std::string note() const { return {}; }
};

/// Not for rows: see row_stream.hpp.
std::unique_ptr<ByteStream> open_bytes(const SourceFile& file);

}  // namespace tessera
