#pragma once
// HDF5's part of a shard file: its datasets and the positions of their bytes.

#include <filesystem>
#include <vector>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

/// Creates the file with datasets that have offsets but no content yet; fills in name, bytes, runs and offsets.
FileRecord create_shard_layout(const std::filesystem::path& path, std::int64_t writer,
                               const std::vector<TensorRecord>& tensors, const std::vector<ElementRun>& runs,
                               StateContent content = StateContent::full);

/// Reads a shard's layout through HDF5: runs, and offsets of datasets that are contiguous, and of the right type
/// and length. Throws IoError for anything else, also if `tensors` differ.
FileRecord read_shard_layout(const std::filesystem::path& path, const std::vector<TensorRecord>& tensors,
                             StateContent content = StateContent::full);

}  // namespace tessera
