#pragma once
// What HDF5 holds of a shard file: its datasets and where their bytes lie.

#include <array>
#include <filesystem>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Creates the file with datasets that have their places but no content yet; fills in name, bytes, runs and offsets.
FileRecord create_shard_layout(const std::filesystem::path& path, std::int64_t writer,
                               const std::vector<TensorRecord>& tensors, const std::vector<ElementRun>& runs);

/// What HDF5 itself says of a shard: runs, and offsets of datasets that are contiguous little-endian fp32 of the right
/// length. IoError for anything else, also where `tensors` are others.
FileRecord read_shard_layout(const std::filesystem::path& path, const std::vector<TensorRecord>& tensors);

}  // namespace tessera
