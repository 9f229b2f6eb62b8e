#pragma once
// What a run's folder tells of its checkpoints without looking at them: they may lie on a file system that is not
// mounted at the moment.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tessera {

/// A key that those lines of log.jsonl have that tell of a checkpoint.
inline constexpr const char* kCheckpointKey = "checkpoint_bytes";

/// Returns the step of the last checkpoint that log.jsonl, the metrics files or status.json of a run's folder tell of,
/// whether it is still there or not; nothing if the run has published none. Metrics that cannot be read tell of none.
/// Throws IoError if the system refuses to read the others. Not while the run's own I/O thread writes metrics.
std::optional<std::int64_t> published_checkpoint(const std::filesystem::path& run);

}  // namespace tessera
