#pragma once
// What a checkpoint was, for the run's records.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// One checkpoint, written.
struct CheckpointReport {
  std::int64_t step = 0;
  std::int64_t bytes = 0;         ///< of all files together (rank 0)
  double blocked_seconds = 0;     ///< in which training waited
  double waited_seconds = 0;      ///< of these: for the previous checkpoint, which was still being written
  double background_seconds = 0;  ///< during which training went on
  std::filesystem::path folder;
  std::vector<std::string> notes;  ///< lines for the user (rank 0): checkpoints set aside, failed deletions
};

}  // namespace tessera
