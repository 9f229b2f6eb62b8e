#pragma once
// The facts about a checkpoint for the run's records.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// One checkpoint that was written.
struct CheckpointReport {
  std::int64_t step = 0;
  std::int64_t bytes = 0;         ///< of all files together (rank 0)
  double blocked_seconds = 0;     ///< while training waited
  double waited_seconds = 0;      ///< of these: while waiting for the previous checkpoint to be written
  double background_seconds = 0;  ///< while training went on
  std::filesystem::path folder;
  std::vector<std::string> notes;  ///< lines for the user (rank 0): checkpoints set aside, failed deletions
};

}  // namespace tessera
