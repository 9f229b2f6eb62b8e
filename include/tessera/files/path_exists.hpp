#pragma once
// Looking at paths that a person gave.

#include <filesystem>

namespace tessera {

/// Whether something is at PATH; UsageError where the system does not say (no permission, a loop of links, a name too
/// long).
bool path_exists(const std::filesystem::path& path);

}  // namespace tessera
