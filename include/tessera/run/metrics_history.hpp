#pragma once
// The metrics files that earlier starts of a run left: metrics.h5, metrics.1.h5, ... Together they are the run's
// history, in which every step stands once.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

/// Returns N of metrics.N.h5 (0 for metrics.h5) for every one in the folder, ascending. IoError.
std::vector<std::int64_t> metrics_files(const std::filesystem::path& folder);
std::filesystem::path metrics_path(const std::filesystem::path& folder, std::int64_t number);

/// Prepares the metrics files for a run that continues after `step`: removes the rows of later steps, which are done
/// again. Closes files that a killed process left open. A file is replaced whole. With `keep_replaced` one that loses
/// rows stays as FILE.before-step-N. Returns a line for each file that cannot be read or replaced. On the I/O thread.
std::vector<std::string> end_history_after(const std::filesystem::path& folder, std::int64_t step, bool keep_replaced);

}  // namespace tessera
