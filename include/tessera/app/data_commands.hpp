#pragma once
// `tessera data`.

#include <filesystem>

#include "tessera/config/options.hpp"

namespace tessera {

/// Prepares data.source and data.val_source in the cache, or data.source as the file of data.output. Returns the exit
/// code.
int run_data_prepare(const Options& options);

/// Prints what is in a token file, a prepared corpus of the cache, or a source, which is prepared if need be. Returns
/// the exit code.
int run_data_inspect(const std::filesystem::path& path, const Options& options);

}  // namespace tessera
