#pragma once
// The files of a checkpoint in its manifest: their blocks' checksums, and which elements shards have where.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/manifest_fields.hpp"
#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Formats a checksum as 16 hexadecimal digits.
std::string hex_of(std::uint64_t checksum);

nlohmann::ordered_json file_json(const FileRecord& file);
FileRecord read_file_record(const Fields& fields, StateContent content);

/// Checks that runs lie inside their tensors, datasets inside their file, and every element in exactly one run.
void check_runs(const Manifest& manifest, const std::string& where);

}  // namespace tessera
