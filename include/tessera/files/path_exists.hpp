#pragma once
// Checks of user-given paths.

#include <filesystem>

namespace tessera {

/// Returns whether something is at PATH; UsageError if the system cannot tell (no permission, a loop of links, a name
/// too long).
bool path_exists(const std::filesystem::path& path);

}  // namespace tessera
