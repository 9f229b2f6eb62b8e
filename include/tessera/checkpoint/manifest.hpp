#pragma once
// manifest.json as text and back. The last key, "checksum", is the XXH3 of the text with that checksum as zeros.

#include <filesystem>
#include <string>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Returns the file's whole text.
std::string manifest_text(const Manifest& manifest);

/// Reads the text of FOLDER/manifest.json, so that one rank can read it for all. Throws IoError, or UnreadableError if
/// the system denies access.
std::string read_manifest_text(const std::filesystem::path& folder);

/// Parses and checks that text: schema, checksum, consistent sizes, and every element of every tensor in exactly one
/// run. Allocations are bounded by the text's length. IoError names the file and the defect.
Manifest manifest_from(const std::string& text, const std::filesystem::path& folder);

/// Reads FOLDER/manifest.json by both of the above.
Manifest read_manifest(const std::filesystem::path& folder);

/// Converts one file's record to JSON text, to send it to the rank that writes the manifest, and back.
std::string file_record_text(const FileRecord& record);
FileRecord parse_file_record(const std::string& text);

}  // namespace tessera
