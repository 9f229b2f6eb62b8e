#pragma once
// A JSON file that a person or another program wrote: read whole, with a limit, every trouble a UsageError naming the
// file.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

/// JSON from elsewhere. UsageError where values are nested deeper than anything that is read here (copying and printing
/// recurse); nlohmann::json::exception where the text is no JSON.
nlohmann::json parse_json(const std::string& text);

/// The JSON object in a file of at most `limit` bytes. UsageError if it is missing, too long, not JSON or not an
/// object; IoError if it cannot be read.
nlohmann::json read_json_object(const std::filesystem::path& path, std::int64_t limit);

/// The text of a file of at most `limit` bytes; errors as above.
std::string read_text_file(const std::filesystem::path& path, std::int64_t limit);

}  // namespace tessera
