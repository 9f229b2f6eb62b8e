#pragma once
// A JSON file that a person or another program wrote: read whole, up to a limit. Every defect is a UsageError naming
// the file.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

/// Parses foreign JSON. UsageError if values are nested deeper than in any supported file (copying and printing
/// recurse); nlohmann::json::exception if the text is not JSON.
nlohmann::json parse_json(const std::string& text);

/// Reads the JSON object in a file of at most `limit` bytes. UsageError if it is missing, too long, not JSON or not an
/// object; IoError if it cannot be read.
nlohmann::json read_json_object(const std::filesystem::path& path, std::int64_t limit);

/// Reads the text of a file of at most `limit` bytes; errors as above.
std::string read_text_file(const std::filesystem::path& path, std::int64_t limit);

}  // namespace tessera
