#pragma once
// Names of models on the Hugging Face hub, which people give where a folder belongs.

#include <filesystem>
#include <string>

namespace tessera {

/// Says how to download the model ORG/NAME if a path that is not there looks like that; empty if it does not, or if
/// there is a folder ORG.
std::string hub_hint(const std::filesystem::path& path);

}  // namespace tessera
