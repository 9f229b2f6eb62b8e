#pragma once
// The files that data.source names.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class SourceKind : std::uint8_t { text, json, json_lines, rows, tokens };  // rows: of Parquet
enum class Compression : std::uint8_t { none, gzip, zstd };

/// Identifies a version of a file.
struct FileState {
  std::int64_t size = 0, modified = 0;  ///< bytes; nanoseconds since 1970
  bool operator==(const FileState&) const = default;
};

struct SourceFile {
  std::filesystem::path path;
  SourceKind kind = SourceKind::text;
  Compression compression = Compression::none;
  FileState state;  ///< see examine_files
};

/// Files in the order in which their documents are read.
struct SourceList {
  std::string name;  ///< as the user gave it
  std::vector<SourceFile> files;
  std::string skipped;  ///< what was left out and why, in one line; empty if nothing was

  /// Returns whether all files are of this kind, and none is compressed.
  bool is_only(SourceKind kind) const;
};

/// Lists a file, a folder, a glob, or several of them between commas, in this order. A folder's files are those that
/// hold text, sub-folders included, but for what is hidden (its name begins with a dot, or is __MACOSX). They and a
/// glob's matches are in the order of the bytes of their paths. A path that exists is taken as it is, with its commas.
/// `option` is for messages. UsageError for paths that are missing or unknown, if nothing is found, and for token files
/// among text. IoError for a part that cannot be read.
SourceList list_sources(const std::string& given, std::string_view option);

/// Fills in the state of all files. IoError.
void examine_files(SourceList& list);
/// Returns the state of a file now. IoError.
FileState state_of(const std::filesystem::path& file);
/// IoError if the state of a file, which is being read, is another now.
void require_unchanged(const SourceFile& file);

}  // namespace tessera
