#pragma once
// The metrics files that earlier starts of a run left: metrics.h5, metrics.1.h5, ... Together they are the run's
// history, in which every step appears once.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Returns N of metrics.N.h5 (0 for metrics.h5) for every one in the folder, ascending. Throws IoError.
std::vector<std::int64_t> metrics_files(const std::filesystem::path& folder);
std::filesystem::path metrics_path(const std::filesystem::path& folder, std::int64_t number);

/// Prepares the metrics files for a run that continues after `step`: removes the rows of later steps, which are
/// repeated (after step 0 all rows), and closes files that a killed process left open. Files are replaced whole, and
/// one that loses rows stays as FILE.before-step-N, because they may be all that is left of another branch. Returns a
/// line for each that cannot be read or replaced. On the I/O thread.
std::vector<std::string> end_history_after(const std::filesystem::path& folder, std::int64_t step);

/// Returns the step of the last row of /checkpoints; nothing if there is none, or if the file cannot be read. Not of
/// files that are without metrics.swmr.
std::optional<std::int64_t> last_checkpoint_in(const std::filesystem::path& metrics);

}  // namespace tessera
