#pragma once
// Rows of Parquet files as lines of JSON, read by pyarrow in a helper process (helpers/read_rows.py).

#include <filesystem>
#include <memory>
#include <string>

#include "text/byte_stream.hpp"
#include "text/helper.hpp"

namespace tessera {

/// A helper that reads one file after another.
class RowReader {
 public:
  /// Starts it. UsageError, which names `file`, where Python or pyarrow is missing.
  explicit RowReader(const std::filesystem::path& file);

  /// Returns the rows as Piece::Kind::rows has them. Must be read to the end, or destroyed, before the next call, and
  /// not outlive the reader. UsageError for a file that is not Parquet, is damaged or has no column that makes
  /// documents; the errors of ByteStream.
  std::unique_ptr<ByteStream> open(const SourceFile& file, const std::string& key);

 private:
  std::unique_ptr<Helper> helper_;
};

}  // namespace tessera
