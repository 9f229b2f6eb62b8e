#pragma once
// manifest.json as text and back. The last key, "checksum", is the XXH3 of the text with that checksum as zeros.

#include <filesystem>
#include <string>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// The file's whole text.
std::string manifest_text(const Manifest& manifest);

/// The text of FOLDER/manifest.json, so that one rank can read it for all. IoError; UnreadableError where the system
/// does not let it.
std::string read_manifest_text(const std::filesystem::path& folder);

/// That text checked in itself: schema, checksum, sizes that fit each other, and every element of every tensor in
/// exactly one run. Nothing is allocated that the text does not pay for. IoError naming the file and what is wrong.
Manifest manifest_from(const std::string& text, const std::filesystem::path& folder);

/// FOLDER/manifest.json: both of the above.
Manifest read_manifest(const std::filesystem::path& folder);

/// One file's record as a JSON text, for sending it to the rank that writes the manifest, and back.
std::string file_record_text(const FileRecord& record);
FileRecord parse_file_record(const std::string& text);

}  // namespace tessera
